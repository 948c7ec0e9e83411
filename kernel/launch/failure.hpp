#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/error.hpp"
#include "tessera/types.hpp"

namespace tessera {

/// What a rank says about its failure. One of kind `interrupted` is none: it stopped in good order.
struct FailureReport {
  Error error;
  i64 time_ns = 0;  ///< on the steady clock of the host
};

/// Sends the message to the launcher, through RankEnvironment::report. To be called once, before
/// peers are told to stop. True: the launcher will print it; false: nobody listens, print it
/// yourself.
bool report_failure(int descriptor, const Error& error) noexcept;

/// Tells the launcher that this rank ends with kInterrupted (signals.hpp) and has not failed. That
/// code alone would not say so: a library may end the process with any.
bool report_interrupted(int descriptor) noexcept;

/// Writes all of it, in as many pieces and as slowly as the reader takes it; false when the other
/// end is gone.
bool write_all(int descriptor, std::string_view bytes) noexcept;

/// The bytes that travel; decode gives nothing for a report that was cut off.
std::string encode(const FailureReport& report);
std::optional<FailureReport> decode(std::string_view bytes);

/// How a rank ended, as the launcher saw it.
struct RankEnd {
  i64 rank = 0;
  std::optional<FailureReport> report = {};
  int signal = 0;              ///< that killed it, or 0
  int exit_code = 0;           ///< if no signal did
  i64 noticed = 0;             ///< counts the launcher's looks: when its end or its report showed
  std::string last_line = {};  ///< the last that it wrote to standard error
  bool stopped_by_us = false;  ///< after another had failed
  bool starved = false;        ///< the system killed it because memory ran out
  std::string starved_limit = {};  ///< the limit that it hit, where it is known
  bool frozen = false;             ///< it was stopped (SIGSTOP, a debugger) when others failed
  std::string stuck = {};          ///< why SIGKILL did not end it; such a rank is left behind
};

/// It said that it stopped in good order, because a signal asked it to.
bool interrupted(const RankEnd& end);
bool failed(const RankEnd& end);

/// The rank whose failure made the others fail; null when none failed. A death without report comes
/// before reports noticed at the same look, since a peer's death is what they may tell of. What
/// happened on another rank, or blames one, is a cause only when there is no other: no failure of
/// its own, and no rank that is frozen or stuck.
const RankEnd* find_cause(const std::vector<RankEnd>& ends);

/// "rank 1 was killed by signal 9 (Killed)", or the message that it sent.
std::string describe(const RankEnd& end);
/// What is said of a process that was killed because memory ran out; `limit`: of OutOfMemoryKills.
std::string starved_text(std::string_view who, std::string_view limit);

/// What to print when the run is over, the cause last: "[rank 1] out of memory …". A few lines,
/// whatever the number of ranks.
std::vector<std::string> failure_lines(const std::vector<RankEnd>& ends);

}  // namespace tessera
