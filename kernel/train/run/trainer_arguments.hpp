#pragma once
#include <exception>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "kernel/comm/control_plane/control_plane.hpp"
#include "kernel/plugin/host.hpp"
#include "kernel/train/setup/make_rank.hpp"
#include "kernel/train/setup/run_setup.hpp"

namespace tessera {

/// What one rank of a run is trained with.
struct TrainerArguments {
  const RunSetup* setup = nullptr;  ///< outlives the training
  RankIdentity identity;
  /// Asked before every step; true: end early, save, exit well. All ranks stop after the same step,
  /// the one after that which begins next.
  std::function<bool()> stop;
  /// Called before the first step: the start is over, and from now on `stop` is asked.
  std::function<void()> begin;
  std::string joined;                     ///< what joins the ranks, for people: "shm"
  std::string config_text;                ///< the resolved configuration, kept with the run
  std::vector<std::string> command = {};  ///< that started it, kept with the run
  std::vector<PluginHost::Fingerprint> plugins = {};  ///< that are loaded, the same
  /// Called with a failure before the peers are told to stop.
  std::function<void(const std::exception&)> failed;
  bool json = false;  ///< console output is for programs
};

/// A rank that lives may take its time, as with a large checkpoint; a dead one gets none.
inline WaitLimits wait_limits_of(const RunSetup& setup) {
  const RankSpec spec = rank_spec_of(setup);
  return {spec.init_timeout, spec.timeout};
}

}  // namespace tessera
