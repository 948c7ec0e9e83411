#include "kernel/launch/failure.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstring>
#include <tuple>

#include "kernel/comm/error_json.hpp"
#include "kernel/launch/signals.hpp"
#include "kernel/plugin/crash_watch.hpp"
#include "kernel/system/limits.hpp"
#include "tessera/error.hpp"

namespace tessera {

namespace {

// A rank that had stopped in good order may still crash on its way out.
bool has_words(const RankEnd& end) {
  return end.report && end.report->error.kind() != ErrorKind::interrupted;
}

std::string words_of(const RankEnd& end) { return end.report->error.what(); }

// A rank that said why it failed may still not end.
bool is_stuck(const RankEnd& end) { return !end.stuck.empty() && !has_words(end); }

bool is_echo(const RankEnd& end) {
  if (!end.report) return false;
  const Error& error = end.report->error;
  const bool of_another = error.rank() != Error::kNoRank && error.rank() != end.rank;
  return of_another || blames_peer(error.kind());
}

// Failures of its own, then what waits in vain points to, then what repeats others.
int standing(const RankEnd& end) {
  if (end.frozen || is_stuck(end)) return 1;
  if (!is_echo(end)) return 0;
  return end.report->error.kind() == ErrorKind::peer_silent ? 2 : 3;
}

bool all_say_the_same(const std::vector<RankEnd>& ends) {
  return std::all_of(ends.begin(), ends.end(), [&](const RankEnd& end) {
    return has_words(end) && words_of(end) == words_of(ends.front());
  });
}

std::string with_rank(const RankEnd& end) {
  const bool own_words = has_words(end) && !end.frozen;
  return own_words ? fmt::format("[rank {}] {}", end.rank, words_of(end)) : describe(end);
}

}  // namespace

bool write_all(int descriptor, std::string_view bytes) noexcept {
  while (!bytes.empty()) {
    const ssize_t count = write(descriptor, bytes.data(), bytes.size());
    if (count >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(count));
    } else if (errno == EAGAIN) {  // a terminal or pipe that another program made so
      pollfd wait{.fd = descriptor, .events = POLLOUT, .revents = 0};
      poll(&wait, 1, -1);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

bool report_failure(int descriptor, const Error& error) noexcept try {
  if (descriptor < 0) return false;
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const std::string bytes =
      encode({error, std::chrono::duration_cast<std::chrono::nanoseconds>(now).count()});
  return write_all(descriptor, bytes);
} catch (...) {
  return false;  // out of memory: the caller prints the text as it is
}

std::string encode(const FailureReport& report) {
  const std::string error = error_json(report.error);
  return fmt::format("{} {}\n{}", report.time_ns, error.size(), error);
}

std::optional<FailureReport> decode(std::string_view bytes) {
  const std::size_t line_end = bytes.find('\n');
  if (line_end == std::string_view::npos) return std::nullopt;
  i64 fields[2] = {};
  const char* place = bytes.data();
  const char* const end = bytes.data() + line_end;
  for (i64& field : fields) {
    const auto [stop, error] = std::from_chars(place, end, field);
    if (error != std::errc()) return std::nullopt;
    place = stop == end ? stop : stop + 1;
  }
  const std::string_view json = bytes.substr(line_end + 1);
  if (fields[1] < 0 || json.size() < static_cast<std::size_t>(fields[1])) return std::nullopt;
  try {
    return FailureReport{error_of_json(json.substr(0, static_cast<std::size_t>(fields[1]))),
                         fields[0]};
  } catch (const Error&) {  // a library has written into the pipe
    return std::nullopt;
  }
}

bool report_interrupted(int descriptor) noexcept try {
  return report_failure(descriptor, Error("stopped in good order", ErrorKind::interrupted));
} catch (...) {
  return false;  // out of memory
}

bool interrupted(const RankEnd& end) { return end.signal == 0 && end.report && !has_words(end); }

bool failed(const RankEnd& end) {
  if (interrupted(end)) return false;
  return has_words(end) || end.frozen || !end.stuck.empty() ||
         (!end.stopped_by_us && (end.signal != 0 || end.exit_code != 0));
}

const RankEnd* find_cause(const std::vector<RankEnd>& ends) {
  const auto order = [&](const RankEnd& end) {
    return std::tuple(standing(end),
                      end.noticed,
                      end.report.has_value(),
                      end.report ? end.report->time_ns : 0,
                      end.rank);
  };
  const RankEnd* cause = nullptr;
  for (const RankEnd& end : ends) {
    if (failed(end) && (cause == nullptr || order(end) < order(*cause))) cause = &end;
  }
  return cause;
}

std::string starved_text(std::string_view who, std::string_view limit) {
  return fmt::format(
      "{} was killed by the system because memory ran out{}{}: use less of it (in a training: more "
      "ranks, a smaller batch.micro, recompute) or raise the limit",
      who,
      limit.empty() ? "" : "; ",
      limit);
}

std::string describe(const RankEnd& end) {
  if (end.frozen) {
    return fmt::format(
        "rank {} is stopped (by SIGSTOP or a debugger): it neither reports nor moves, and the "
        "run timed out waiting for it",
        end.rank);
  }
  if (has_words(end)) return words_of(end);
  if (is_stuck(end)) {
    return fmt::format(
        "rank {} does not end, and SIGKILL has no effect: {}; it ends when what it waits for in "
        "the system does (a file system, a device)",
        end.rank,
        end.stuck);
  }
  // A program that aborts has just said why.
  const std::string words =
      end.last_line.empty() ? "" : fmt::format("; its last line: {}", end.last_line);
  const bool crash = end.last_line.starts_with(kCrashed);
  if (end.starved) return starved_text(fmt::format("rank {}", end.rank), end.starved_limit);
  if (end.signal != 0) {
    return fmt::format("rank {} was killed by signal {} ({}){}",
                       end.rank,
                       end.signal,
                       strsignal(end.signal),
                       end.signal == SIGABRT || crash ? words : "");
  }
  const std::string limit = explain_words(end.last_line);
  return fmt::format("rank {} ended with exit code {}{}{}{}",
                     end.rank,
                     end.exit_code,
                     words,
                     limit.empty() ? "" : "; ",
                     limit);
}

std::vector<std::string> failure_lines(const std::vector<RankEnd>& ends) {
  const RankEnd* cause = find_cause(ends);
  if (cause == nullptr) return {};
  if (all_say_the_same(ends)) return {describe(*cause)};
  constexpr std::size_t kShown = 3;
  std::vector<std::string> lines;
  std::size_t more = 0;
  for (const RankEnd& end : ends) {
    if (&end == cause || !failed(end) || (!end.frozen && is_echo(end))) continue;
    if (has_words(end) && has_words(*cause) && words_of(end) == words_of(*cause)) continue;
    if (lines.size() < kShown) {
      const std::string line = with_rank(end);
      lines.push_back(line.substr(0, line.find('\n')));
    } else {
      ++more;
    }
  }
  if (more > 0) lines.push_back(fmt::format("({} more ranks failed)", more));
  lines.push_back(with_rank(*cause));
  return lines;
}

}  // namespace tessera
