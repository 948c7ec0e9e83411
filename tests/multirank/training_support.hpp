#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernel/train/execution/evaluation.hpp"
#include "kernel/train/execution/train_step.hpp"
#include "kernel/train/setup/make_rank.hpp"
#include "kernel/train/setup/run_setup.hpp"

namespace tessera::testing {

/// A small GPT on a small text, on the `reference` device unless overridden; dropout on.
std::string tiny_config();

/// What a run under some layout gave, as far as it does not depend on the layout.
struct Training {
  std::vector<double> losses, norms;  ///< by step
  std::vector<double> loss_scales;    ///< after each step
  std::vector<double> updates;        ///< so far: skipped steps make none
  /// Logical gradients of the first step and parameters after the last, gathered from all ranks.
  std::map<std::string, std::vector<double>> gradients, parameters;
};

/// One rank of a training, initialised, as the trainer puts it together.
class RankRun {
 public:
  RankRun(const RunSetup& setup, const RankIdentity& identity);
  const RunSetup& setup() const { return setup_; }
  const Mesh& mesh() const { return *rank_.mesh; }
  Device& device() const { return *rank_.device; }
  const Rank& rank() const { return rank_; }
  PlacedModel& model() { return model_; }
  ModelParts& parts() { return model_.parts(); }
  TrainStep& step() { return step_; }
  Evaluation& evaluation() { return evaluation_; }

 private:
  const RunSetup& setup_;
  Rank rank_;
  PlacedModel model_;
  TrainStep step_;
  Evaluation evaluation_;
};

/// This rank of a world of threads, joined by the communicator that the configuration says, or by
/// "threads".
RankIdentity thread_identity(i64 rank, i64 world, Store& store, const RunConfig& config = {});

struct TrainOptions {
  int steps = 1;
  u64 deferred_seed = 0;
  /// Even ranks on one host and odd ones on another: communicator "threads" within, "gloo" between.
  bool two_hosts = false;
  bool one_unit = false;             ///< all ranks compute on the first unit of hardware
  const PluginHost* host = nullptr;  ///< where components come from; plugins() when empty
  /// Called on every rank's thread after the last step.
  std::function<void(RankRun&)> at_end = {};
  /// Called on every rank's thread before the first update, with complete gradients.
  std::function<void(RankRun&)> before_update = {};
};

/// Runs `body` once a rank, each on a thread of its own, and throws the first error.
void on_threads(i64 world, const std::function<void(i64 rank)>& body);
/// The same with a RankRun each. When one throws, the others are told, so that they end at once and
/// not by their timeout.
void run_ranks(const RunSetup& setup,
               const std::function<RankIdentity(i64 rank)>& identity,
               const std::function<void(RankRun&)>& body);

/// Trains `config` with `sets` over it, one thread a rank. An error of a rank is thrown here; a
/// hang ends by the communicator's timeout.
Training train(const std::string& config,
               const std::vector<std::string>& sets,
               const TrainOptions& options);

/// Gathers a logical tensor from what every rank holds of it.
void gather_into(std::vector<double>& logical,
                 const std::vector<double>& local,
                 const Parameter& parameter);
/// The same of a range of this rank's storage.
void gather_into(std::vector<double>& logical,
                 const std::vector<double>& part,
                 const Parameter& parameter,
                 const FlatRange& range);

/// The plugins of the build tree and the rule of examples/plugin_matrix_rule, loaded once a
/// process.
const PluginHost& plugins();
/// A host of one's own with the same plugins, for tests that add components to it.
std::unique_ptr<PluginHost> load_plugins();

}  // namespace tessera::testing
