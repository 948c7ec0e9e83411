#include "kernel/system/limits.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <limits>
#include <system_error>
#include <thread>
#include <utility>

#include "sdk/src/shared/control_group.hpp"
#include "tessera/device/thread_team.hpp"
#include "tessera/error.hpp"

namespace tessera {

namespace {

bool contains_any(std::string_view text, std::initializer_list<std::string_view> words) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return std::ranges::any_of(words, [&](auto w) { return lower.find(w) != std::string::npos; });
}

std::string gib(double bytes) { return fmt::format("{:.2f} GiB", bytes / (1 << 30)); }

std::optional<rlim_t> limit_of(__rlimit_resource resource) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return limit.rlim_cur;
}

// A number of this file that follows the word; 0 when there is none.
i64 number_after(const std::filesystem::path& file, const std::string& word, int base = 10) {
  std::ifstream in(file);
  in >> std::setbase(base);
  for (std::string found; in >> found;) {
    i64 number = 0;
    if (found == word && in >> number) return number;
  }
  return 0;
}

// The nearest control group of this process that has `file`; empty when there is none.
std::filesystem::path group_folder(const std::string& controller,
                                   const std::string& file,
                                   const std::string& proc,
                                   const std::string& groups) {
  std::error_code error;
  for (const std::filesystem::path& folder : control_groups(controller, proc, groups)) {
    if (std::filesystem::exists(folder / file, error)) return folder;
  }
  return {};
}

std::string first_line(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

constexpr double kUnlimited = 1e18;  // version 1 of control groups has no word for it

// The limit that this file of a control group has; none: it limits nothing.
std::optional<double> group_limit(const std::filesystem::path& file) {
  const double limit = std::strtod(first_line(file).c_str(), nullptr);  // "max" is 0
  if (limit > 0 && limit < kUnlimited) return limit;
  return std::nullopt;
}

// The smallest number that `file` has in one of this process's control groups, each of which limits
// what is below it; none: there is no limit.
std::optional<double> least_in_groups(const std::string& controller,
                                      const std::string& file,
                                      const std::string& proc = "/proc",
                                      const std::string& groups = "/sys/fs/cgroup") {
  std::optional<double> least;
  for (const std::filesystem::path& folder : control_groups(controller, proc, groups)) {
    if (const auto limit = group_limit(folder / file))
      least = std::min(least.value_or(*limit), *limit);
  }
  return least;
}

// Size of this process's address space, in bytes.
i64 address_space_in_use() { return 1024 * number_after("/proc/self/status", "VmSize:"); }

// Empty: no limit of this process's own.
std::string memory_text() {
  std::string text;
  if (const auto limit = limit_of(RLIMIT_AS)) {
    text = fmt::format("the limit of virtual memory (ulimit -v) is {}, of which {} are in use",
                       gib(static_cast<double>(*limit)),
                       gib(static_cast<double>(address_space_in_use())));
  } else if (const auto data = limit_of(RLIMIT_DATA)) {
    text = fmt::format("the limit of data (ulimit -d) is {}", gib(static_cast<double>(*data)));
  }
  return text;
}

std::string files_text() {
  const auto limit = limit_of(RLIMIT_NOFILE);
  if (!limit) return "the system's files are used up (/proc/sys/fs/file-max)";
  return fmt::format("the limit of open files (ulimit -n) is {}", *limit);
}

// Memory that processes share is a file, too.
std::string file_size_text() {
  const auto limit = limit_of(RLIMIT_FSIZE);
  if (!limit) return {};
  return fmt::format("the limit of the size of a file (ulimit -f) is {} KiB", *limit / 1024);
}

std::string processes_text() {
  std::string text;
  if (const auto limit = limit_of(RLIMIT_NPROC)) {
    text = fmt::format("the limit of processes and threads of this user (ulimit -u) is {}", *limit);
  }
  if (const auto limit = least_in_groups("pids", "pids.max")) {
    text += fmt::format("{}pids.max of the control group is {}", text.empty() ? "" : "; ", *limit);
  }
  return text.empty() ? "the system's processes are used up (/proc/sys/kernel/threads-max)" : text;
}

// The system says the same where a thread finds no memory for its stack.
std::string threads_text() {
  const auto memory = limit_of(RLIMIT_AS);
  if (!memory) return processes_text();
  constexpr rlim_t kUsualStack = 8 << 20;
  const rlim_t wanted = limit_of(RLIMIT_STACK).value_or(kUsualStack);
  const bool full = static_cast<rlim_t>(address_space_in_use()) + wanted > *memory;
  return full ? memory_text() : memory_text() + "; " + processes_text();
}

// Processes and threads of this user that can be seen here.
i64 threads_of_user(const std::string& proc) {
  i64 threads = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(proc, error)) {
    if (!std::isdigit(static_cast<unsigned char>(entry.path().filename().native()[0]))) continue;
    const std::filesystem::path status = entry.path() / "status";
    if (number_after(status, "Uid:") == static_cast<i64>(getuid())) {
      threads += number_after(status, "Threads:");
    }
  }
  return threads;
}

// Threads of all users; 0 where the system does not tell.
i64 threads_of_all(const std::string& proc) {
  const std::string load = first_line(proc + "/loadavg");  // "0.89 1.37 1.16 1/84 1698"
  const auto slash = load.find('/');
  return slash == load.npos ? 0 : std::atoll(load.c_str() + slash + 1);
}

// The system's administrator, and who may go beyond limits, has no limit of threads. One who is
// that within a container only has.
bool may_exceed_limits(const std::string& proc) {
  constexpr i64 kAll = (i64{1} << 32) - 1;
  i64 inside = 0, outside = 0, users = 0;
  std::ifstream(proc + "/self/uid_map") >> inside >> outside >> users;
  if (inside != outside || users != kAll) return false;
  constexpr i64 kAdministrator = i64{1} << 21 | i64{1} << 24;  // CAP_SYS_ADMIN, CAP_SYS_RESOURCE
  return getuid() == 0 ||
         (number_after(proc + "/self/status", "CapEff:", 16) & kAdministrator) != 0;
}

i64 bytes_of_a_stack() {
  pthread_attr_t attributes;
  std::size_t bytes = 0;
  if (pthread_getattr_default_np(&attributes) != 0) return 0;
  pthread_attr_getstacksize(&attributes, &bytes);
  pthread_attr_destroy(&attributes);
  return static_cast<i64>(bytes);
}

}  // namespace

i64 room_for_threads(const std::string& proc, const std::string& groups) {
  i64 room = std::numeric_limits<i64>::max();
  const auto leave = [&room](i64 left) { room = std::min(room, std::max<i64>(left, 0)); };
  for (const std::filesystem::path& folder : control_groups("pids", proc, groups)) {
    const auto most = group_limit(folder / "pids.max");
    const std::string now = first_line(folder / "pids.current");
    if (most && !now.empty()) leave(static_cast<i64>(*most) - std::atoll(now.c_str()));
  }
  const auto most = limit_of(RLIMIT_NPROC);
  if (most && !may_exceed_limits(proc)) {
    // Looking at each process takes time, so it is done where it may matter.
    constexpr i64 kPlenty = 1 << 12;
    i64 used = threads_of_all(proc);
    if (used == 0 || static_cast<i64>(*most) - used < kPlenty) used = threads_of_user(proc);
    leave(static_cast<i64>(*most) - used);
  }
  const auto memory = limit_of(RLIMIT_AS);
  const i64 stack = bytes_of_a_stack();
  if (memory && stack > 0) leave((static_cast<i64>(*memory) - address_space_in_use()) / stack);
  return room;
}

std::string explain_limit(const Error& error) {
  if (error.has(ErrorFrame::Kind::advice)) return {};  // said where it happened
  switch (error.resource()) {
    case Resource::memory:
      return memory_text();
    case Resource::open_files:
      return files_text();
    case Resource::file_size:
      return file_size_text();
    case Resource::threads:
      return threads_text();
    case Resource::none:
      return {};
  }
  return {};
}

Error with_limit(Error error) {
  const std::string limit = explain_limit(error);
  if (!limit.empty()) error.add(ErrorFrame::Kind::advice, limit);
  return error;
}

std::string explain_words(std::string_view words) {
  if (contains_any(words, {"(ulimit"})) return {};  // said where it happened
  Error error(words);
  if (contains_any(words, {"bad_alloc", "cannot allocate memory", "out of memory"})) {
    error.add(Resource::memory);
  } else if (contains_any(words, {"too many open files"})) {
    error.add(Resource::open_files);
  } else if (contains_any(words, {"file too large"})) {
    error.add(Resource::file_size);
  } else if (contains_any(words, {"resource temporarily unavailable"})) {
    error.add(Resource::threads);
  }
  return explain_limit(error);
}

void require_open_files(i64 count, std::string_view what) {
  rlimit limit{};
  const auto wanted = static_cast<rlim_t>(count);
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return;
  limit.rlim_cur = std::min(wanted, limit.rlim_max);
  setrlimit(RLIMIT_NOFILE, &limit);
  require(limit.rlim_cur >= wanted,
          "{} may need {} open files, but the limit of open files (ulimit -n) is {}",
          what,
          count,
          limit.rlim_max);
}

void require_stack() {
  constexpr rlim_t kSmallest = 512;  // KiB, for each thread; trainings have ended below 96
  const auto limit = limit_of(RLIMIT_STACK);
  require(!limit || *limit / 1024 >= kSmallest,
          "the limit of the stack (ulimit -s) is {} KiB, and this program needs {} KiB: raise it "
          "(ulimit -s 8192)",
          limit.value_or(0) / 1024,
          kSmallest);
}

void require_threads(int count) {
  if (const TeamLimit limit = team_limit(); limit.threads < count) {
    fail_config(
        "device.threads = {}, but {} allows {}: unset it, or set device.threads to {} or \"auto\"",
        count,
        limit.by,
        limit.threads,
        limit.threads);
  }
  constexpr int kOwn = 2;  // for signals, and for what is written meanwhile
  const i64 room = room_for_threads();
  if (room < count - 1 + kOwn) {
    fail(
        "this process cannot have {} threads (device.threads) and {} of its own, but {} in all: {}",
        count,
        kOwn,
        room + 1,
        threads_text());
  }
  // Starts a team of two as the device will start the whole: that shows what is wrong with the
  // settings of OpenMP. Runs on a thread whose team ends with it.
  std::exception_ptr error;
  std::jthread([&] {
    try {
      start_team(std::min(count, 2));
    } catch (const Error&) {
      error = std::current_exception();
    }
  }).join();
  if (error) std::rethrow_exception(error);
}

std::optional<OutOfMemoryKills> out_of_memory_kills(const std::string& proc,
                                                    const std::string& groups) {
  const i64 host = 1024 * number_after(proc + "/meminfo", "MemTotal:");
  const std::string host_limit =
      host > 0 ? "the memory of the host is " + gib(static_cast<double>(host)) : "";
  // Versions 2 and 1 of control groups, then the whole system.
  constexpr std::pair<const char*, const char*> kFiles[] = {
      {"memory.events", "memory.max"}, {"memory.oom_control", "memory.limit_in_bytes"}};
  for (const auto& [events, most] : kFiles) {
    const std::filesystem::path folder = group_folder("memory", events, proc, groups);
    if (folder.empty()) continue;
    OutOfMemoryKills kills{number_after(folder / events, "oom_kill"), host_limit};
    if (const auto bytes = least_in_groups("memory", most, proc, groups)) {
      kills.limit = fmt::format("{} of its control group is {}", most, gib(*bytes));
    }
    return kills;
  }
  std::error_code error;
  if (!std::filesystem::exists(proc + "/vmstat", error)) return std::nullopt;
  return OutOfMemoryKills{number_after(proc + "/vmstat", "oom_kill"), host_limit};
}

}  // namespace tessera
