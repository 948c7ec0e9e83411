#include "kernel/train/setup/survey.hpp"

#include <algorithm>

#include "kernel/model/located_error.hpp"
#include "tessera/error.hpp"

namespace tessera {

namespace {

// Takes losses and metrics of a pass whose values nobody reads.
class NoSink final : public StepSink {
 public:
  explicit NoSink(const Tensor& one) : one_(one) {}
  Tensor inverse_weight(LossTerm) override { return one_; }
  void add_loss(Context&, LossTerm, const Tensor&) override {}
  void report(Context&, Metric, const Tensor&) override {}

 private:
  Tensor one_;
};

}  // namespace

Survey::Survey(const Model& model, const BuildSettings& settings)
    : layers_(model.layers()),
      parts_(*settings.mesh),
      whole_(model, 0, 0, static_cast<int>(layers_.size()), settings, parts_) {}

std::vector<std::string> Survey::block_scopes() const {
  std::vector<std::string> scopes;
  for (const PhaseInfo& info : whole_.infos()) {
    if (layers_[static_cast<std::size_t>(info.layer)].role != ModelLayer::block) continue;
    if (std::ranges::find(scopes, info.scope) == scopes.end()) scopes.push_back(info.scope);
  }
  return scopes;
}

std::vector<PhaseInfo> Survey::phases(const StageMap& map, int stage) const {
  const StageMap::Stage& place = map.stages.at(static_cast<std::size_t>(stage));
  std::vector<PhaseInfo> phases;
  for (PhaseInfo info : whole_.infos()) {
    if (info.layer < place.layers.first || info.layer >= place.layers.last) continue;
    info.chunk = place.chunk;
    info.phase = static_cast<int>(phases.size());
    phases.push_back(std::move(info));
  }
  if (phases.empty()) phases.push_back(passing_info(place.chunk));
  return phases;
}

std::vector<PhaseInfo> Survey::phases_of_rank(const StageMap& map,
                                              int rank,
                                              const RecomputeSection& recompute) const {
  std::vector<std::vector<PhaseInfo>> chunks(map.stages.size());
  for (int stage = 0; stage <= map.last(); ++stage) {
    const StageMap::Stage& place = map.stages[static_cast<std::size_t>(stage)];
    if (place.rank == rank) chunks[static_cast<std::size_t>(place.chunk)] = phases(map, stage);
  }
  std::vector<PhaseInfo> all;
  for (std::vector<PhaseInfo>& chunk : chunks) std::ranges::move(chunk, std::back_inserter(all));
  mark_recomputed(all, layers_, recompute);
  return all;
}

std::vector<int> Survey::holders(const ModelParts::Entry& entry, const StageMap& map) {
  std::vector<int> stages;
  for (const int layer : entry.layers) stages.push_back(map.stage_of_layer(layer));
  std::ranges::sort(stages);
  std::vector<int> ranks;
  for (const int stage : stages) {
    const int rank = map.stages[static_cast<std::size_t>(stage)].rank;
    if (std::ranges::find(ranks, rank) == ranks.end()) ranks.push_back(rank);
  }
  return ranks;
}

std::vector<Boundary> Survey::boundaries(Context cx,
                                         const StageMap& map,
                                         const std::vector<FieldInfo>& inputs,
                                         const BatchShape& batch) {
  std::vector<int> input_slots;
  std::vector<DType> dtypes;
  for (const FieldInfo& field : inputs) {
    input_slots.push_back(parts_.slot(field.name));
    dtypes.push_back(field.dtype);
  }
  for (const std::string_view name : {"row_ids", "positions"}) {
    input_slots.push_back(parts_.slot(name));
    dtypes.push_back(DType::i64);
  }
  NoSink sink(cx.empty({1}, DType::fp64));
  cx.sink = &sink;
  Bundle bundle = parts_.bundle();
  for (std::size_t i = 0; i < input_slots.size(); ++i) {
    bundle[Slot{input_slots[i]}] = cx.empty({batch.rows()}, dtypes[i]);
  }
  std::vector<Boundary> out;
  std::size_t phase = 0;
  for (int stage = 0; stage < map.last(); ++stage) {
    const int end = map.stages[static_cast<std::size_t>(stage)].layers.last;
    for (; phase < whole_.infos().size() && whole_.infos()[phase].layer < end; ++phase) {
      const Phase& next = whole_.phases()[phase];
      try {
        next.run(cx, bundle);
      } catch (...) {
        rethrow_located(next.component);
      }
    }
    Boundary boundary;
    for (int slot = 0; slot < static_cast<int>(parts_.slots().size()); ++slot) {
      const Tensor& tensor = bundle[Slot{slot}];
      const bool input = std::ranges::find(input_slots, slot) != input_slots.end();
      if (input || !tensor.defined()) continue;
      require(is_floating(tensor.dtype()),
              "slot \"{}\" ({}) crosses pipeline stages; only floating values can",
              parts_.slots()[static_cast<std::size_t>(slot)],
              tensor);
      boundary.push_back(
          {parts_.slots()[static_cast<std::size_t>(slot)], tensor.shape(), tensor.dtype()});
    }
    out.push_back(std::move(boundary));
  }
  return out;
}

void mark_recomputed(std::vector<PhaseInfo>& phases,
                     const std::vector<ModelLayer>& layers,
                     const RecomputeSection& recompute) {
  if (recompute.mode == "none") return;
  for (PhaseInfo& info : phases) {
    if (info.layer == kNoLayer) continue;
    const bool block = layers.at(static_cast<std::size_t>(info.layer)).role == ModelLayer::block;
    info.recompute =
        block && (recompute.mode == "full" ||
                  std::ranges::find(recompute.scopes, info.scope) != recompute.scopes.end());
  }
}

}  // namespace tessera
