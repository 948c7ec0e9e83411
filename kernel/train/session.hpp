#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernel/train/batch_loader.hpp"
#include "kernel/train/executor.hpp"
#include "kernel/train/partial_gradients.hpp"
#include "kernel/train/setup.hpp"
#include "kernel/train/shared_gradients.hpp"
#include "kernel/train/step_losses.hpp"
#include "tessera/comm.hpp"
#include "tessera/core_ops.hpp"
#include "tessera/optimizer.hpp"

namespace tessera {

struct Pipeline;

/// What a session is made over in place of what is configured, when nothing is to run: its memory,
/// messages and launches are those of a real one. Parameters get no values.
struct StandIns {
  std::shared_ptr<Device> device;
  std::shared_ptr<Communicator> communicator;  ///< unused for a world of one
  std::shared_ptr<Dataset> dataset;
  std::function<void(const PlanAction&)> before_action;  ///< told of each action of a train_step
  const Pipeline* pipeline = nullptr;  ///< of a train_step, played once for many sessions
};

/// What a rank is started with. What is pointed to outlives the session.
struct SessionArguments {
  const Resolved* config = nullptr;
  const PluginHost* plugins = nullptr;
  i64 rank = 0, world = 1, local_rank = 0;
  Store* store = nullptr;    ///< nullptr for a world of one
  std::string communicator;  ///< type; unused for a world of one
  /// Where set, `communicator` joins only ranks of one host, and this type the others; then `hosts`
  /// says where each rank is.
  std::string between_hosts;
  std::vector<std::string> hosts;
  int threads = 1;
  u64 deferred_seed = 0;  ///< test mode of the device
  /// In place of training data: a session that cannot train, only logits() is of use.
  const Tokenizer* tokenizer = nullptr;
  const StandIns* stand_ins = nullptr;
};

/// One rank's training state: device, groups, model, optimizer, data. A step at a time; what to do
/// between steps (logging, saving, stopping) is the trainer's. Two sessions can live in one
/// process.
class Session {
 public:
  explicit Session(const SessionArguments& arguments);
  ~Session();

  const RunConfig& config() const { return arguments_.config->run; }
  const RunSetup& setup() const { return setup_; }
  const Mesh& mesh() const { return *mesh_; }
  Device& device() const { return *device_; }
  ModelParts& parts() { return *parts_; }
  Optimizer& optimizer() { return *optimizer_; }
  const Plan& plan() const { return plan_; }
  const StageMap& stages() const { return stages_; }
  /// All parameters of the model, those of other stages too.
  const std::vector<std::string>& parameter_names() const { return parameter_names_; }
  /// Elements of the whole model's parameters, each logical one once.
  i64 parameter_elements() const { return parameter_elements_; }
  /// Steps done; the data position is steps() × batch.global samples.
  i64 steps() const { return steps_; }
  /// Updates of the parameters: steps() without skipped ones. Waits for the device.
  i64 updates() const;
  /// After loading a checkpoint: continue behind this step.
  void set_steps(i64 steps, i64 updates);

  /// One training step. `inspect` is called when all gradients are complete, before the update.
  void train_step(const std::function<void()>& inspect = {});
  /// Values of the steps since the last call, in order. Waits for the device.
  std::vector<StepLosses::Row> losses();
  bool losses_full() const { return losses_->full(); }
  /// Mean loss over the first `samples` validation samples, the same on every rank.
  double validate(i64 samples);
  /// Runs tokens (one sample, padded to the sequence length) without targets and returns the logits
  /// of `position` over the unpadded vocabulary. One rank only.
  std::vector<float> logits(const std::vector<i32>& tokens, i64 position);
  /// True on every rank when `stop` was true on any: all ranks stop behind the same step.
  bool any_rank(bool stop);
  /// Tells the other ranks that this one fails, and prints the last collectives of its groups.
  void abort(std::string_view reason) noexcept;
  /// Throws Error naming the first parameter that differs between replicas.
  void check_replicas();

 private:
  void build_model(const RunConfig& config);
  using Holders = std::vector<std::pair<std::string, std::vector<int>>>;  // of parameters, by name
  Holders survey_model();
  void keep_names(const ModelParts& whole);
  void build_training(const RunConfig& config);
  Context context();
  void update(Context& cx);
  Plan make_plan(int microbatches, bool training) const;

  SessionArguments arguments_;
  HostMaker maker_;
  RunSetup setup_;
  // In the order in which they depend on each other: destroyed from the last to the first.
  std::shared_ptr<Communicator> communicator_;
  std::shared_ptr<Device> device_;
  std::unique_ptr<Mesh> mesh_;
  std::unique_ptr<CoreOps> ops_;
  std::unique_ptr<ModelParts> parts_;
  StageMap stages_;
  std::vector<Boundary> boundaries_;  // behind each stage but the last
  std::vector<Chunk> chunks_;
  std::unique_ptr<SharedGradients> shared_;
  std::unique_ptr<GradientBuffer> gradients_;
  std::unique_ptr<PartialGradients> partial_;
  std::unique_ptr<BatchLoader> loader_;
  std::shared_ptr<Optimizer> optimizer_;
  std::unique_ptr<StepLosses> losses_, validation_;
  Tape tape_;
  Tensor scalars_, rates_, sum_squares_, loss_scale_, stop_flag_;
  Plan plan_;
  std::unique_ptr<Executor> executor_;
  std::vector<std::string> parameter_names_;
  i64 steps_ = 0, parameter_elements_ = 0;
};

}  // namespace tessera
