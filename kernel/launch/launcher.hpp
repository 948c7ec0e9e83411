#pragma once
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "kernel/launch/restarts.hpp"
#include "tessera/types.hpp"

namespace tessera {

struct LaunchOptions {
  std::vector<std::string> environment = {};  ///< "NAME=value", for all ranks
  int threads = 0;  ///< of each rank; 0: each decides. Says who gets which processors, too
  /// File that ranks that fail write what they did last into; named when it was. Empty: none.
  std::string flight_records = {};
  /// How long the others may take to end by themselves after one rank has failed, and how long
  /// until they are killed.
  std::chrono::milliseconds terminate_after{2000};
  std::chrono::milliseconds kill_after{5000};
  /// How long ranks may be stopped (SIGSTOP) after all others have ended: nobody waits for them any
  /// more, so no deadline of a rank finds them. Where all are stopped this is told after that time.
  std::chrono::milliseconds frozen_after{10000};
  /// How long after the first failure ranks that SIGKILL does not end are waited for.
  std::chrono::milliseconds stuck_after{60000};
  /// Said when the first SIGINT is passed on; empty: nothing.
  std::string stopping = "stopping after two more steps; interrupt again to end at once";
  /// How often all ranks are started again after a failure; Restarts says after which ones. Never
  /// after an error of the configuration or a signal.
  i64 restarts = 0;
  /// Called before each: where the ranks go on, and with what arguments.
  std::function<Restart()> restart = {};
};

/// Starts this program again, `ranks` times, with these arguments (the program's name first), and
/// stays until all have ended. They find themselves through detect_environment(); this process
/// hosts their store. Returns the exit code to end with: 0 done, 1 failed, 2 when the rank that
/// failed first ended so, kInterrupted (signals.hpp) when the ranks stopped in good order before
/// the end, 130 after a second SIGINT, 128 + n when signal n came before ranks could take it,
/// kOutputClosed when nobody reads what the run prints any more.
///
/// The first SIGINT is passed on, and so are the other stop signals, as SIGTERM: ranks stop after
/// the same step. Nothing of a run outlives this process, nor the thread that called: ranks die
/// with it. Only what SIGKILL does not end stays, and is named.
int launch_ranks(i64 ranks,
                 const std::vector<std::string>& argv,
                 const LaunchOptions& options = {});

/// The arguments that this process was started with, the program's name first.
std::vector<std::string> program_arguments();

}  // namespace tessera
