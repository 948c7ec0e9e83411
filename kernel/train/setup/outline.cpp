#include "kernel/train/setup/outline.hpp"

#include <algorithm>

#include "kernel/config/choice.hpp"
#include "kernel/model/data_inputs.hpp"
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
  void count(Context&, Counts, i64, const Tensor&) override {}

 private:
  Tensor one_;
};

}  // namespace

Outline::Outline(const Model& model, const BuildSettings& settings)
    : layers_(model.layers()),
      parts_(*settings.mesh),
      whole_(model, 0, 0, static_cast<int>(layers_.size()), settings, parts_) {}

std::vector<int> Outline::holders(const ModelParts::Entry& entry, const StageMap& map) {
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

class Outline::Pass {
 public:
  Pass(Outline& outline,
       const Context& cx,
       const std::vector<FieldInfo>& fields,
       const BatchShape& batch)
      : cx_(cx),
        phases_(outline.whole_.phases()),
        infos_(outline.whole_.infos()),
        sink_(cx_.empty({1}, DType::fp64)),
        inputs_(DataInputs(outline.parts_, fields, true).inputs()),
        slots_(slots_of(outline.parts_, inputs_)),
        bundle_(outline.parts_.bundle()) {
    cx_.sink = &sink_;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      bundle_[Slot{slots_[i]}] = cx_.empty({values_of(inputs_[i], batch)}, inputs_[i].dtype);
    }
  }
  Pass(const Pass&) = delete;

  /// Goes on to the end of the layers before `end`.
  void run_until(int end) {
    for (; next_ < infos_.size() && infos_[next_].layer < end; ++next_) {
      try {
        run_phase(phases_[next_], cx_, bundle_);
      } catch (...) {
        rethrow_at(choice_of(phases_[next_].owner));
      }
    }
  }
  /// What the slot holds now, other than an input.
  Tensor value(int slot) {
    const bool input = std::ranges::find(slots_, slot) != slots_.end();
    return input ? Tensor() : bundle_[Slot{slot}];
  }

 private:
  static std::vector<int> slots_of(ModelParts& parts, const std::vector<FieldInfo>& inputs) {
    std::vector<int> slots;
    for (const FieldInfo& input : inputs) slots.push_back(parts.slot(input.name));
    return slots;
  }

  Context cx_;
  const std::vector<Phase>& phases_;
  const std::vector<PhaseInfo>& infos_;
  NoSink sink_;
  std::vector<FieldInfo> inputs_;
  std::vector<int> slots_;  // theirs
  Bundle bundle_;
  std::size_t next_ = 0;
};

std::vector<Boundary> Outline::boundaries(Context cx,
                                          const StageMap& map,
                                          const std::vector<FieldInfo>& inputs,
                                          const BatchShape& batch) {
  Pass pass(*this, cx, inputs, batch);
  std::vector<Boundary> out;
  for (int stage = 0; stage < map.last(); ++stage) {
    pass.run_until(map.stages[static_cast<std::size_t>(stage)].layers.last);
    Boundary boundary;
    for (int slot = 0; slot < static_cast<int>(parts_.slots().size()); ++slot) {
      const Tensor tensor = pass.value(slot);
      if (!tensor.defined()) continue;
      const std::string& name = parts_.slots()[static_cast<std::size_t>(slot)];
      require(is_floating(tensor.dtype()),
              "slot \"{}\" ({}) crosses pipeline stages; only floating values can",
              name,
              tensor);
      boundary.push_back({name, tensor.shape(), tensor.dtype()});
    }
    out.push_back(std::move(boundary));
  }
  return out;
}

void Outline::forward(Context cx, const std::vector<FieldInfo>& inputs, const BatchShape& batch) {
  Pass(*this, cx, inputs, batch).run_until(static_cast<int>(layers_.size()));
}

void mark_recomputed(std::vector<PhaseInfo>& phases,
                     const std::vector<ModelLayer>& layers,
                     const RecomputeSection& recompute) {
  if (recompute.mode == "none") return;
  for (PhaseInfo& info : phases) {
    if (info.layer == kNoLayer) continue;
    const bool block = layers.at(static_cast<std::size_t>(info.layer)).is_block();
    info.recompute =
        block && (recompute.mode == "full" ||
                  std::ranges::find(recompute.scopes, info.scope) != recompute.scopes.end());
  }
}

}  // namespace tessera
