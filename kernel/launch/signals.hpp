#pragma once
#include <semaphore.h>

#include <array>
#include <csignal>
#include <thread>

namespace tessera {

/// Exit code of a program that ends because nobody reads its output any more (`… | head`): the one
/// that shells show for those that the system ends for it.
inline constexpr int kOutputClosed = 128 + SIGPIPE;

/// Exit code of a training that stopped in good order before its last step, because a signal asked
/// it to: its state is saved (unless checkpoint.save is false) and the same command goes on.
inline constexpr int kInterrupted = 3;

/// The signals that ask a run to stop: Ctrl-C; `kill`; a dropped connection; what batch systems
/// send some time before they end a job (`sbatch --signal=USR1@120`).
inline constexpr std::array kStopSignals = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};

/// While one lives, the stop signals and SIGPIPE of the standard output or standard error set a
/// flag instead of ending the process; afterwards the old handlers are back, unless a stop was
/// requested or what began (below) is done: the process is about to end, and a signal that is late
/// or sent twice must not change how. At most one lives at a time, since a process has one handler
/// a signal. SIGPIPE and SIGHUP (`nohup`) stay ignored where they were.
///
/// The stop signals are taken by a thread of its own; they are blocked in the thread that made
/// it, which also ends it, and in those started since: generated code may compute with the stack
/// pointer in the heap, where a handler's frame destroys what lies below (oneDNN issue #4845).
class StopFlag {
 public:
  enum class SecondInterrupt {
    dies,    ///< by SIGINT, at once: an impatient user gets the prompt back
    counted  ///< left to the owner, who asks interrupts(), and suspension() for SIGTSTP (Ctrl-Z)
  };
  enum class Requests {
    from_now,
    from_begin  ///< until begin() a stop signal ends the process at once, as without a flag
  };
  explicit StopFlag(SecondInterrupt second = SecondInterrupt::dies,
                    Requests requests = Requests::from_now);
  ~StopFlag();
  StopFlag(const StopFlag&) = delete;
  StopFlag& operator=(const StopFlag&) = delete;

  /// There is something to lose now: stop signals become requests.
  void begin();
  bool requested() const { return signal() != 0; }
  /// The first one that came; 0 while none has.
  int signal() const;
  /// How many of SIGINT, and of the other stop signals, came so far.
  int interrupts() const;
  int terminations() const;
  /// Did SIGTSTP come since the last suspend()? Where interrupts are not counted, it stops the
  /// process at once.
  bool suspension() const;
  /// Stops this process as SIGTSTP does without a flag, until SIGCONT. Returns at once in an
  /// orphaned process group, which no shell could continue. Call it on the thread that made it.
  void suspend() const;
  /// Was something written that nobody reads any more?
  bool output_closed() const;

 private:
  bool from_begin_;
  sigset_t mask_before_;
  sem_t over_;
  std::thread listener_;
};

}  // namespace tessera
