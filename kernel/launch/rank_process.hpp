#pragma once
#include <poll.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "kernel/launch/failure.hpp"
#include "kernel/launch/processors.hpp"

namespace tessera {

/// What all ranks of a run are started with.
struct RankProgram {
  std::string path;
  std::vector<std::string> arguments;    ///< the program's name first
  std::vector<std::string> environment;  ///< "NAME=value"; each rank gets its own on top
  std::vector<CpuMask> processors = {};  ///< by rank; empty: those of the launcher
};

/// One rank: a process of its own group that the system kills when the thread that started it ends.
/// Started while a StopFlag of that thread lives, so that no handler runs between fork and exec.
/// The standard output of rank 0 is the launcher's; all else that ranks write arrives here.
class RankProcess {
 public:
  RankProcess(i64 rank, const RankProgram& program);
  ~RankProcess();  ///< kills what is left of it
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;

  bool running() const { return pid_ > 0; }
  /// Has closed its end of the report: it ends at any moment.
  bool ending() const { return report_ < 0; }
  /// Sends to the process alone.
  void send(int signal) const;
  /// Kills the process and all that it started.
  void kill_all() const;
  void mark_stopped() { end_.stopped_by_us = !failed(end_); }
  /// Is it stopped (SIGSTOP, a debugger)? Then it neither reports nor obeys anything but SIGKILL.
  bool frozen() const;
  /// The system killed it because memory ran out; `limit` may be unknown.
  void mark_starved(const std::string& limit) {
    end_.starved = true;
    end_.starved_limit = limit;
  }
  void mark_frozen() { end_.frozen = true; }
  /// Why it does not end (stuck_process.hpp).
  std::string why_stuck() const;
  /// SIGKILL did not end it: it is waited for no longer, and counts as ended.
  void give_up();

  void add_to(std::vector<pollfd>& polled) const;
  /// `look` counts the rounds of the launcher's loop. True: a report or its end has just shown.
  bool read_report(i64 look);
  /// Passes whole lines on and sees whether the process is gone.
  void attend(i64 look);
  const RankEnd& end() const { return end_; }

 private:
  void read_lines();
  void pass_on(std::string_view line);
  void reap(i64 look);
  void finish_output();

  pid_t pid_ = -1;
  int output_ = -1, report_ = -1;
  std::string partial_line_, report_bytes_;
  RankEnd end_;
};

}  // namespace tessera
