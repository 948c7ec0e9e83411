#pragma once
#include <string>
#include <string_view>

#include "kernel/train/setup/make_rank.hpp"
#include "kernel/train/setup/placed_model.hpp"

namespace tessera {

/// Checks what can be known before ranks start that use the checkpoint in `folder` without training
/// it: that layers divide among them, that it has their parameters, and what these mean. Throws
/// ConfigError; what is doubtful is a warning. `doing`: "generate". `changed`: a structural key
/// that is meant to have another value than the checkpoint says, "model.head.type"; empty: none.
void check_loadable(const RunSetup& setup,
                    const std::string& folder,
                    int threads,
                    std::string_view doing,
                    std::string_view changed);

/// The model of a checkpoint, on one rank or on several that share it, which nobody trains.
class LoadedModel {
 public:
  /// Loads the parameters of the checkpoint in `folder`, which are checked where the rank is the
  /// only one. Configuration and plugins outlive it. `changed`: see check_loadable.
  LoadedModel(const RunSetup& setup,
              const std::string& folder,
              const RankIdentity& identity,
              std::string_view doing,
              std::string_view changed = {});
  const RunSetup& setup() const { return setup_; }
  const Rank& rank() const { return rank_; }
  PlacedModel& placed() { return placed_; }

 private:
  RunSetup setup_;
  Rank rank_;
  PlacedModel placed_;
};

}  // namespace tessera
