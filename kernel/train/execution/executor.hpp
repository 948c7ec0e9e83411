#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "kernel/model/chunk.hpp"
#include "kernel/train/execution/action_observer.hpp"
#include "kernel/train/execution/live_chunk.hpp"
#include "kernel/train/execution/pipeline_mail.hpp"
#include "kernel/train/gradients/gradient_sync.hpp"
#include "tessera/plan.hpp"

namespace tessera {

class ModelGraphs;
class PreparedWeights;

/// Runs plans: phases forward and backward on the tape, exchanges between stages, bucket reductions
/// as soon as a bucket is complete, and the step. Knows nothing of schedules: the plan says
/// everything.
class Executor {
 public:
  /// Fills the input slots of a microbatch's bundle.
  using Load = std::function<void(Context&, int microbatch, Bundle&)>;
  /// Called for the plan's Step, when all gradients are summed. The callee must call
  /// GradientSync::updated and PreparedWeights::changed.
  using Step = std::function<void(Context&)>;
  /// Called after a forward-only microbatch with what the model's last phase left in the bundle.
  using Done = std::function<void(Context&, int microbatch, Bundle&)>;

  /// `boundaries`: one between each two stages. `gradients` may be missing for evaluation only.
  Executor(std::vector<Chunk>& chunks,
           ModelParts& parts,
           GradientSync* gradients,
           const Mesh& mesh,
           const std::vector<Boundary>& boundaries);
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// Told of each action from now on; outlives the executor.
  void observe(ActionObserver& observer) { observer_ = &observer; }
  ActionObserver& observer() const { return *observer_; }

  /// From now on training plans replay these graphs, which outlive the executor.
  void replay(ModelGraphs& graphs) { graphs_ = &graphs; }
  /// From now on training plans prepare these weights, which outlive the executor.
  void prepare(PreparedWeights& weights) { weights_ = &weights; }
  void train(Context cx, const Plan& plan, const Load& load, const Step& step);
  void evaluate(Context cx, const Plan& plan, const Load& load, const Done& done = {});

 private:
  struct Calls {
    const Load& load;
    const Step& step;
    const Done& done;
  };
  void run(Context& cx, const Plan& plan, const Calls& calls);
  void act(Context& cx, const Plan& plan, int index, const Calls& calls);
  void arrive(Context& cx, const Plan& plan, const PlanAction& action);
  void compute(Context& cx, const Plan& plan, const PlanAction& action, const Calls& calls);
  void forward(Context& cx, const Plan& plan, const PlanAction& action, const Calls& calls);
  void recompute(Context& cx, const Plan& plan, const PlanAction& action);
  void backward(Context& cx, const Plan& plan, const PlanAction& action);
  void receive_activations(LiveChunk& to, int microbatch, int stage);
  void send_activations(Context& cx, LiveChunk& from, int microbatch, int stage);
  void receive_gradients(LiveChunk& to, int microbatch, int stage);
  void send_gradients(Context& cx, LiveChunk& from, int microbatch, int stage);

  Tensor leaving(Context& cx, Tensor tensor) const;
  std::unique_ptr<LiveChunk>& live(const Plan& plan, const PlanAction& action);
  const std::vector<Slot>& slots(int boundary) const {
    return boundary_slots_.at(static_cast<std::size_t>(boundary));
  }

  std::vector<Chunk>& chunks_;
  ModelParts& parts_;
  GradientSync* gradients_;
  ModelGraphs* graphs_ = nullptr;
  PreparedWeights* weights_ = nullptr;
  int last_stage_;
  std::vector<std::vector<Slot>> boundary_slots_;
  PipelineMail mail_;
  ActionObserver nobody_;
  ActionObserver* observer_ = &nobody_;
  std::vector<std::unique_ptr<LiveChunk>> live_;  // by microbatch and chunk
};

}  // namespace tessera
