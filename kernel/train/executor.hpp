#pragma once
#include <functional>
#include <vector>

#include "kernel/model/chunk.hpp"
#include "kernel/train/gradient_buffer.hpp"
#include "tessera/plan.hpp"

namespace tessera {

/// Runs plans: phases forward and backward on the tape, bucket reductions as soon as a bucket is
/// complete, and the step. Knows nothing of schedules: the plan says everything.
class Executor {
 public:
  /// Fills the input slots of a microbatch's bundle.
  using Load = std::function<void(Context&, int microbatch, Bundle&)>;
  /// Called for the plan's Step, after all reductions are waited for.
  using Step = std::function<void(Context&)>;
  /// Called after a forward-only microbatch with what its last phase left in the bundle.
  using Done = std::function<void(Context&, int microbatch, Bundle&)>;

  Executor(std::vector<Chunk>& chunks,
           const ModelParts& parts,
           const GradientBuffer* gradients,
           ProcessGroup* data);
  ~Executor();

  void train(Context cx, const Plan& plan, const Load& load, const Step& step);
  void evaluate(Context cx, const Plan& plan, const Load& load, const Done& done = {});

  /// Where set, told of each action of train() before it runs.
  std::function<void(const PlanAction&)> before_action;

 private:
  struct Frame;
  struct Live;
  void forward(Context& cx, Live& live, const PlanAction& action, const Phase& phase);
  void backward(Context& cx, Live& live, const PlanAction& action, Half half);
  Live& live_of(Context& cx, const Plan& plan, const PlanAction& action, const Load& load);
  const Phase& phase_of(const PlanAction& action) const;

  std::vector<const Phase*> phases_;  // of all chunks, as the plan counts them
  std::vector<int> last_phase_of_chunk_;
  const ModelParts& parts_;
  const GradientBuffer* gradients_;
  ProcessGroup* data_;
  std::vector<std::unique_ptr<Live>> live_;  // by microbatch and chunk
};

}  // namespace tessera
