#include "kernel/train/run/loaded_model.hpp"

#include "kernel/checkpoint/rank_load.hpp"
#include "kernel/dry/dry_rank.hpp"
#include "kernel/model/look_ahead.hpp"
#include "kernel/train/run/meaning.hpp"
#include "kernel/train/run/training_state.hpp"
#include "tessera/io/written.hpp"
#include "tessera/log.hpp"

namespace tessera {

namespace {

void check_meaning(const std::string& folder,
                   const CheckpointInfo& info,
                   const RunSetup& setup,
                   std::string_view doing,
                   std::string_view changed) {
  Meaning meaning = compare_meaning(info, setup);
  std::erase_if(meaning.keys, [&](const StructureChange& one) { return one.key == changed; });
  warn_of_unknown(folder, meaning);
  require_same_keys(
      folder, meaning, fmt::format("{} with the values that it was trained with", doing));
  if (meaning.tokenizer.empty()) return;
  log_warning(
      "{} was trained with the tokenizer {}, and this one is {}: its ids are other texts; "
      "give the files that it was trained with (--set tokenizer.path=...)",
      folder,
      quote(meaning.tokenizer),
      quote(meaning.tokenizer_now));
}

// Finds what does not fit; tells of what is doubtful.
void check_model(const PlacedModel& model,
                 const std::string& folder,
                 const CheckpointIndex& index,
                 std::string_view doing,
                 std::string_view changed) {
  LookAhead ahead;
  ahead.add(model.chunks());
  ahead.warn();
  check_meaning(folder, index.info, model.setup(), doing, changed);
  require_fit(folder, index, parameter_tensors(model), nullptr);
}

}  // namespace

void check_loadable(const RunSetup& setup,
                    const std::string& folder,
                    int threads,
                    std::string_view doing,
                    std::string_view changed) {
  const auto device = make_planned_device(rank_spec_of(setup), threads);
  const Rank rank = dry_rank(setup.layout, 0, device);
  check_model({rank, setup, {.forward_only = true}}, folder, read_index(folder), doing, changed);
}

LoadedModel::LoadedModel(const RunSetup& setup,
                         const std::string& folder,
                         const RankIdentity& identity,
                         std::string_view doing,
                         std::string_view changed)
    : setup_(setup),
      rank_(make_rank(rank_spec_of(setup_), identity)),
      placed_(rank_, setup_, {.forward_only = true}) {
  const CheckpointIndex index = read_index(folder);
  if (identity.world == 1) check_model(placed_, folder, index, doing, changed);
  read_tensors(folder, index, parameter_tensors(placed_), into_tensors(*rank_.device));
  placed_.complete_loaded();
}

}  // namespace tessera
