#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "tessera/error.hpp"
#include "tessera/types.hpp"

namespace tessera {

/// The system's limit that an error comes from, with its value, "the limit of open files (ulimit
/// -n) is 64": for errors that keep a Resource. Empty for any other, and where it was said already.
std::string explain_limit(const Error& error);
/// The error, with that as advice.
Error with_limit(Error error);
/// The same for the last words of a program that said no more: it is a guess.
std::string explain_words(std::string_view words);

/// Makes room for this many open files, up to what the system allows this process. Throws Error
/// with the limit where that is less; `what` needs them.
void require_open_files(i64 count, std::string_view what);

/// Throws Error with the limit where stacks are too small for this program, which would crash
/// with no explanation.
void require_stack();

/// How many more threads the system lets this process start, by the limits that can be read: of the
/// user's processes (ulimit -u), of control groups (pids.max), of virtual memory (ulimit -v). Other
/// processes may take them first. `proc`, `groups`: where the system tells.
i64 room_for_threads(const std::string& proc = "/proc",
                     const std::string& groups = "/sys/fs/cgroup");

/// Throws Error with the limit where there is no room for so many threads, and those that a run has
/// besides: OpenMP would end the process without a word of why. ConfigError where a setting of
/// OpenMP allows fewer; the errors of start_team (thread_team.hpp), of a team of two.
void require_threads(int count);

/// How many processes the system has killed because memory ran out, in this process's control group
/// where it has one, and the smallest limit of that group and those above it, or the host's memory.
struct OutOfMemoryKills {
  i64 count = 0;
  std::string limit = {};  ///< "memory.max of its control group is 2.00 GiB"; empty: unknown
};
/// `proc`, `groups`: where the system tells.
std::optional<OutOfMemoryKills> out_of_memory_kills(const std::string& proc = "/proc",
                                                    const std::string& groups = "/sys/fs/cgroup");

}  // namespace tessera
