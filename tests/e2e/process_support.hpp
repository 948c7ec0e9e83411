#pragma once
#include <gmock/gmock.h>
#include <sys/types.h>

#include <chrono>
#include <concepts>
#include <map>
#include <mutex>
#include <ostream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace tessera {

struct ProcessResult {
  int exit_code = -1;  ///< -1 when a signal killed it
  int signal = 0;
  bool timed_out = false;  ///< it was killed for that
  double seconds = 0;
  std::string out, err;

  /// The last line of standard error that is not empty.
  std::string last_error() const;
};
/// How a test shows it.
void PrintTo(const ProcessResult& result, std::ostream* out);

using ProcessMatcher = ::testing::Matcher<const ProcessResult&>;
using TextMatcher = ::testing::Matcher<const std::string&>;
/// Where the text has all of these: texts that stand in it, or matchers of it.
template <class... Parts>
TextMatcher has_all(const Parts&... parts) {
  const auto matcher = []<class Part>(const Part& part) -> TextMatcher {
    if constexpr (std::convertible_to<Part, std::string>) {
      return ::testing::HasSubstr(std::string(part));
    } else {
      return part;
    }
  };
  return ::testing::AllOf(matcher(parts)...);
}

/// A process that ended with this exit code, and whose standard error, last line of it, or standard
/// output has all of these parts.
template <class... Parts>
ProcessMatcher Exits(const ::testing::Matcher<int>& code, const Parts&... parts) {
  return ::testing::AllOf(::testing::Field("exit_code", &ProcessResult::exit_code, code),
                          ::testing::Field("err", &ProcessResult::err, has_all(parts...)));
}
template <class... Parts>
ProcessMatcher EndsOn(const ::testing::Matcher<int>& code, const Parts&... parts) {
  return ::testing::AllOf(
      ::testing::Field("exit_code", &ProcessResult::exit_code, code),
      ::testing::Property("last_error", &ProcessResult::last_error, has_all(parts...)));
}
template <class... Parts>
ProcessMatcher Prints(const ::testing::Matcher<int>& code, const Parts&... parts) {
  return ::testing::AllOf(::testing::Field("exit_code", &ProcessResult::exit_code, code),
                          ::testing::Field("out", &ProcessResult::out, has_all(parts...)));
}

struct ProcessOptions {
  std::map<std::string, std::string> environment;  ///< on top of the test's own
  std::string folder;                              ///< to run in; empty: the test's own
};

/// A program that runs beside the test, its output collected. It is killed with this object.
class Process {
 public:
  explicit Process(std::vector<std::string> command, const ProcessOptions& options = {});
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  void send(int signal) const;
  /// What it wrote so far.
  std::string out() const;
  std::string err() const;
  /// Until its output or standard error holds this text `times` times; false when that took longer
  /// than `limit`.
  bool shows(std::string_view text,
             int times = 1,
             std::chrono::milliseconds limit = std::chrono::minutes(2)) const;
  /// Waits for its end. After `limit` kills it.
  ProcessResult wait(std::chrono::milliseconds limit = std::chrono::minutes(12));

 private:
  struct Stream {
    int descriptor = -1;
    mutable std::mutex mutex;
    std::string text;
    std::thread reader;
    void read_all();
  };
  pid_t pid_ = -1;
  std::chrono::steady_clock::time_point started_;
  Stream out_, err_;
};

ProcessResult run_process(std::vector<std::string> command,
                          const ProcessOptions& options = {},
                          std::chrono::milliseconds limit = std::chrono::minutes(12));

/// Processes whose environment holds this "NAME=value"; zombies do not count.
std::vector<pid_t> processes_with(std::string_view entry);

/// The same after waiting up to `limit` for there to be none.
std::vector<pid_t> survivors_with(std::string_view entry,
                                  std::chrono::milliseconds limit = std::chrono::seconds(30));

}  // namespace tessera
