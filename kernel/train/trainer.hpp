#pragma once
#include <exception>
#include <functional>

#include "kernel/train/session.hpp"

namespace tessera {

struct TrainerArguments {
  SessionArguments session;
  std::function<bool()> stop;  ///< asked behind every step: end early, save, exit well
  std::string layout;          ///< for people: "tp 2 on 2 ranks (shm)"
  std::string config_text;     ///< the resolved configuration, kept with the run
  /// Told of a failure before the peers are told to stop.
  std::function<void(const std::exception&)> failed;
  bool json = false;  ///< console output is for programs
};

/// Trains as one rank until run.steps or until any rank is asked to stop: steps, validation,
/// checkpoints, and on rank 0 the observers.
void train_rank(const TrainerArguments& arguments);

}  // namespace tessera
