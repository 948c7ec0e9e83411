#include "kernel/cli/eval_models.hpp"

#include <fmt/format.h>

#include <utility>

#include "kernel/cli/eval_layout.hpp"
#include "kernel/config/toml.hpp"
#include "kernel/train/run/loaded_model.hpp"
#include "tessera/error.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

namespace {

// As --set takes it: what is no TOML value is a string.
std::string value_of(const std::string& text) {
  return parse_toml_value(text, Origin()) ? text : Value(text).text();
}

// "--window 1024" is the key `window` of the evaluation.
std::string keys_of(const EvalOptions& options) {
  std::string keys;
  for (std::size_t i = 0; i < options.keys.size(); i += 2) {
    const std::string& flag = options.keys[i];
    if (!flag.starts_with("--") || flag.size() < 3) {
      fail_config("{}: write keys of the evaluation as --KEY VALUE", written_plain(flag));
    }
    if (i + 1 == options.keys.size()) fail_config("{}: its value is missing", written_plain(flag));
    keys += fmt::format("{} = {}\n", flag.substr(2), value_of(options.keys[i + 1]));
  }
  return keys;
}

StoredModel open_for(const EvalOptions& options,
                     const std::string& checkpoint,
                     const std::string& data) {
  ConfigText settings = eval_layout(options);
  settings.text += fmt::format("[evaluations.{}]\ntype = {}\ndata = {}\n{}",
                               kCommandEvaluation,
                               Value(options.task).text(),
                               Value(data).text(),
                               keys_of(options));
  return {checkpoint, options.path, options.sets, settings};
}

std::string reader_of(const RunSetup& setup) {
  return fmt::format(
      "samples of {} tokens by {}", setup.sequence_length, quote(setup.tokenizer->fingerprint()));
}

// Scores are averaged by their places.
void require_same_samples(const std::string& first,
                          const RunSetup& setup,
                          const std::vector<EvalModels::Further>& further) {
  const auto samples = setup.evaluations.at(0).second->samples();
  if (samples == nullptr) fail_config("--ensemble: this evaluation is of texts, not of samples");
  const std::string wanted = samples->fingerprint();
  for (const EvalModels::Further& model : further) {
    if (model.setup->evaluations.at(0).second->samples()->fingerprint() == wanted) continue;
    fail_config("--ensemble {}: it reads {}, and {} reads {}; models of an ensemble read the same",
                model.name,
                reader_of(*model.setup),
                first,
                reader_of(setup));
  }
}

}  // namespace

StoredModel EvalModels::open() {
  StoredModel first = open_for(options_, options_.checkpoint, options_.data);
  further_.clear();
  for (const auto* names : {&options_.ensemble, &options_.seeds}) {
    for (const std::string& name : *names) {
      further_.push_back({name, open_for(options_, name, options_.data), {}});
    }
  }
  return first;
}

std::vector<Fact> EvalModels::facts() const {
  std::vector<Fact> facts;
  for (const Further& model : further_) {
    facts.push_back({"checkpoint of " + model.name, model.stored.folder.string()});
  }
  return facts;
}

void EvalModels::read(const StoredModel& first, const RunSetup& setup, i64 world) {
  for (Further& model : further_) model.setup = model.stored.setup(world, DataUse::evaluation);
  if (!options_.ensemble.empty()) require_same_samples(options_.checkpoint, setup, further_);
  if (options_.test.empty()) return;
  tested(first).setup(world, DataUse::evaluation);
  for (const Further& model : further_) tested(model.stored).setup(world, DataUse::evaluation);
}

void EvalModels::check_loadable(int threads) const {
  for (const Further& model : further_) {
    tessera::check_loadable(*model.setup, model.stored.folder.string(), threads, "evaluate");
  }
}

StoredModel EvalModels::tested(const StoredModel& model) const {
  return open_for(options_, model.folder.string(), options_.test);
}

}  // namespace tessera
