#include "kernel/train/generator.hpp"

#include <algorithm>
#include <cmath>

#include "kernel/checkpoint/rank_part.hpp"
#include "kernel/config/tree.hpp"
#include "kernel/model/initialize.hpp"
#include "kernel/train/training_state.hpp"
#include "tessera/error.hpp"
#include "tessera/random.hpp"

namespace tessera {

namespace {

SessionArguments arguments_of(const Resolved& config,
                              const PluginHost& plugins,
                              const Tokenizer& tokenizer,
                              int threads) {
  SessionArguments arguments;
  arguments.config = &config;
  arguments.plugins = &plugins;
  arguments.tokenizer = &tokenizer;
  arguments.threads = threads;
  return arguments;
}

}  // namespace

std::shared_ptr<Tokenizer> make_tokenizer(const Resolved& config, const PluginHost& plugins) {
  const Component<Dataset>& data = config.run.data;
  const ComponentInfo* info = plugins.find(Dataset::kKind, data.type);
  require(info != nullptr, "there is no dataset \"{}\"", data.type);
  const auto slot = std::ranges::find(info->fields, Tokenizer::kKind, &FieldSpec::component_kind);
  if (slot == info->fields.end()) {
    fail_config("dataset \"{}\" has no tokenizer to read a prompt with", data.type);
  }
  const std::string path = join_path(data.path, slot->name);
  const Entry* type = config.tree->find(join_path(path, "type"));
  const Value& name = type != nullptr && type->value ? *type->value : *slot->initial;
  HostMaker maker(plugins, config);
  TokenizerArguments none;
  return maker.make(Component<Tokenizer>{std::get<std::string>(name.data), path}, none);
}

i32 sample_token(const std::vector<float>& logits, double temperature, double uniform) {
  require(!logits.empty(), "there are no logits to choose from");
  const bool finite = std::ranges::all_of(logits, [](float x) { return std::isfinite(x); });
  require(finite, "the model's output is not finite");
  const auto best = std::ranges::max_element(logits);
  if (temperature <= 0) return static_cast<i32>(best - logits.begin());
  std::vector<double> sums;  // of the weights up to each token
  double sum = 0;
  for (const float logit : logits) {
    sum += std::exp((static_cast<double>(logit) - *best) / temperature);
    sums.push_back(sum);
  }
  const auto chosen = std::ranges::upper_bound(sums, uniform * sum);
  return static_cast<i32>(std::min(chosen, sums.end() - 1) - sums.begin());
}

Generator::Generator(const Resolved& config,
                     const PluginHost& plugins,
                     const std::string& folder,
                     int threads)
    : tokenizer_(make_tokenizer(config, plugins)),
      session_(arguments_of(config, plugins, *tokenizer_, threads)) {
  const std::vector<CheckpointTensor> tensors = parameter_tensors(session_);
  const std::vector<HostBytes> contents =
      read_tensors(folder, read_index(folder), session_.mesh(), tensors, nullptr);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    session_.device().write(tensors[i].tensor, contents[i].data());
  }
  for (const ModelParts::Entry& entry : session_.parts().parameters()) {
    refresh_compute(*entry.parameter, session_.device());
  }
}

i32 Generator::next(const std::vector<i32>& tokens, const Sampling& sampling) {
  require(!tokens.empty(), "there is nothing to continue");
  const i64 length = session_.setup().batch.sequence;
  const i64 seen = std::min<i64>(length, static_cast<i64>(tokens.size()));
  const std::vector<i32> window(tokens.end() - seen, tokens.end());
  const u64 key = random_key(sampling.seed, "generate");
  return sample_token(
      session_.logits(window, seen - 1), sampling.temperature, random_uniform(key, tokens.size()));
}

}  // namespace tessera
