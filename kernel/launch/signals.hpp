#pragma once

namespace tessera {

/// While one lives, SIGINT and SIGTERM set a flag instead of ending the process; afterwards the old
/// handlers are back. At most one lives at a time, since a process has one handler a signal.
class StopFlag {
 public:
  enum class SecondInterrupt {
    dies,    ///< by SIGINT, at once: whoever is impatient gets his prompt back
    counted  ///< left to the owner, who asks interrupts()
  };
  explicit StopFlag(SecondInterrupt second = SecondInterrupt::dies);
  ~StopFlag();
  StopFlag(const StopFlag&) = delete;
  StopFlag& operator=(const StopFlag&) = delete;

  bool requested() const { return signal() != 0; }
  /// The first one that came; 0 while none has.
  int signal() const;
  /// How many of each came so far.
  int interrupts() const;
  int terminations() const;
};

}  // namespace tessera
