#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/test_folder.hpp"
#include "training_support.hpp"

namespace tessera::testing {

struct TrainerOptions {
  std::string config;
  std::vector<std::string> sets;
  i64 stop_after = 0;  ///< this many steps, as a signal to rank 0 would; 0: at the end
  const PluginHost* host = nullptr;  ///< where components come from; plugins() when empty
};

/// The trainer as `tessera train` runs it, one thread a rank. Throws the first rank's error.
void run_trainer(const TrainerOptions& options);

/// All ranks of a training, each given to the body on its thread.
void on_ranks(const std::string& config,
              const std::vector<std::string>& sets,
              const std::function<void(RankRun&, Store*)>& body);

/// The numbers of one key in a run's metrics.jsonl.
std::vector<double> metric_of(const std::string& out, const std::string& key);

/// Every tensor of a checkpoint put together from its files, element by element: raw bytes.
std::map<std::string, std::string> logical_tensors(const std::string& folder);

}  // namespace tessera::testing
