#pragma once
#include <functional>
#include <utility>
#include <vector>

#include "kernel/train/data/step_inputs.hpp"
#include "kernel/train/execution/executor.hpp"
#include "kernel/train/setup/placed_model.hpp"
#include "tessera/error.hpp"

namespace tessera {

/// Forward passes of a placed model over samples of a dataset, without losses, in rounds of as many
/// microbatches as a training step has, since schedules are known to take those. Data-parallel
/// ranks share out the samples.
class SampleRounds {
 public:
  /// Both outlive it.
  SampleRounds(PlacedModel& model, const Dataset& dataset);

  /// Samples of a round, of all ranks together.
  i64 samples() const { return samples_; }
  const SampleReader& reader() const { return inputs_.reader(); }
  /// The place of a microbatch's first sample in its round.
  i64 first_sample(int microbatch) const;
  /// The round that begins with sample `begin` of ordinals [first, first + count). `loaded` is
  /// called with a microbatch's inputs, `done` after its last layer here. All ranks call it.
  void run(Context& cx,
           SampleSet set,
           i64 first,
           i64 count,
           i64 begin,
           const std::function<void(Context&, Bundle&)>& loaded,
           const Executor::Done& done);
  /// A context for run(), whose losses go to `sink`.
  Context context(StepSink& sink) const;
  /// The sum of what all ranks have, in place; float or double.
  template <class T>
  void sum(Context& cx, std::vector<T>& values) const {
    const Mesh& mesh = *model_.rank().mesh;
    if (mesh.world_size() == 1) return;
    constexpr DType kType = sizeof(T) == sizeof(float) ? DType::fp32 : DType::fp64;
    Device& device = *model_.rank().device;
    const Tensor all = cx.empty({static_cast<i64>(values.size())}, kType);
    device.write(all, values.data());
    mesh.world().all_reduce(*cx.stream, all, ReduceOp::sum, "scores").wait(*cx.stream);
    device.read(all, values.data());
  }

 private:
  PlacedModel& model_;
  int microbatches_;  // of a rank in a round
  i64 samples_;
  StepInputs inputs_;
  Executor executor_;
  Plan plan_;
};

}  // namespace tessera
