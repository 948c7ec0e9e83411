#include "kernel/train/run/generator.hpp"

#include "kernel/checkpoint/rank_load.hpp"
#include "kernel/model/look_ahead.hpp"
#include "kernel/train/run/meaning.hpp"
#include "kernel/train/run/token_ids.hpp"
#include "kernel/train/run/training_state.hpp"
#include "kernel/train/setup/make_rank.hpp"
#include "tessera/io/written.hpp"
#include "tessera/log.hpp"

namespace tessera {

namespace {

void check_meaning(const std::string& folder, const CheckpointInfo& info, const RunSetup& setup) {
  const Meaning meaning = compare_meaning(info, setup);
  warn_of_unknown(folder, meaning);
  require_same_keys(folder, meaning, "generate with the values that it was trained with");
  if (meaning.tokenizer.empty()) return;
  log_warning(
      "{} was trained with the tokenizer {}, and this one is {}: its ids are other texts; "
      "give the files that it was trained with (--set tokenizer.path=...)",
      folder,
      quote(meaning.tokenizer),
      quote(meaning.tokenizer_now));
}

}  // namespace

Generator::Generator(const Resolved& config,
                     const PluginHost& plugins,
                     const std::string& folder,
                     int threads,
                     i64 places)
    : setup_(derive_setup(config, plugins, 1, DataUse::none)),
      rank_(make_rank(rank_spec_of(setup_), {.threads = threads})),
      model_(rank_, setup_, {.forward_only = true}),
      evaluation_(model_),
      sampler_(evaluation_, setup_, places),
      ends_(end_tokens(setup_)) {
  LookAhead ahead;
  ahead.add(model_.chunks());
  ahead.warn();
  const std::vector<CheckpointTensor> tensors = parameter_tensors(model_);
  const CheckpointIndex index = read_index(folder);
  check_meaning(folder, index.info, setup_);
  require_fit(folder, index, tensors, nullptr);
  read_tensors(folder, index, tensors, into_tensors(*rank_.device));
  model_.complete_loaded();
}

}  // namespace tessera
