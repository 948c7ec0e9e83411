#include "process_support.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <stdexcept>

#include "common/test_folder.hpp"

namespace tessera {

namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (std::string& text : texts) list.push_back(text.data());
  list.push_back(nullptr);
  return list;
}

std::vector<std::string> environment_with(const std::map<std::string, std::string>& more) {
  std::vector<std::string> list;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text(*entry);
    if (more.find(text.substr(0, text.find('='))) == more.end()) list.push_back(text);
  }
  for (const auto& [name, value] : more) list.push_back(name + "=" + value);
  return list;
}

int count(std::string_view text, std::string_view part) {
  int found = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at)) {
    ++found;
    at += part.size();
  }
  return found;
}

}  // namespace

std::string ProcessResult::last_error() const {
  const std::size_t end = err.find_last_not_of('\n');
  if (end == std::string::npos) return {};
  const std::size_t start = err.rfind('\n', end);
  return err.substr(start == std::string::npos ? 0 : start + 1, end - start);
}

void PrintTo(const ProcessResult& result, std::ostream* out) {
  *out << "exit code " << result.exit_code << ", signal " << result.signal << "\n"
       << result.out << "\n"
       << result.err;
}

void Process::Stream::read_all() {
  std::array<char, 4096> buffer;
  for (;;) {
    const ssize_t size = read(descriptor, buffer.data(), buffer.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return;
    const std::lock_guard lock(mutex);
    text.append(buffer.data(), static_cast<std::size_t>(size));
  }
}

Process::Process(std::vector<std::string> command, const ProcessOptions& options)
    : started_(Clock::now()) {
  std::vector<std::string> environment = environment_with(options.environment);
  int out[2];
  int err[2];
  if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0) throw std::runtime_error("pipe");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err[1], STDERR_FILENO);
  if (!options.folder.empty()) {
    posix_spawn_file_actions_addchdir_np(&actions, options.folder.c_str());
  }
  // As a shell at a terminal starts programs; whatever runs the tests may ignore or block these.
  sigset_t usual, none;
  sigemptyset(&usual);
  sigemptyset(&none);
  for (const int signal : {SIGINT, SIGTERM, SIGPIPE, SIGHUP, SIGUSR1, SIGUSR2})
    sigaddset(&usual, signal);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setsigdefault(&attributes, &usual);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setpgroup(&attributes, 0);  // of its own, so that wait() can end it
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  const std::vector<char*> argument_list = pointers(command);
  const std::vector<char*> environment_list = pointers(environment);
  const int error = posix_spawnp(&pid_,
                                 command.at(0).c_str(),
                                 &actions,
                                 &attributes,
                                 argument_list.data(),
                                 environment_list.data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  close(out[1]);
  close(err[1]);
  out_.descriptor = out[0];
  err_.descriptor = err[0];
  if (error != 0) {
    close(out[0]);
    close(err[0]);
    throw std::runtime_error("cannot start " + command[0] + ": " + std::strerror(error));
  }
  out_.reader = std::thread([this] { out_.read_all(); });
  err_.reader = std::thread([this] { err_.read_all(); });
}

Process::~Process() {
  if (pid_ > 0) wait(0ms);
}

void Process::send(int signal) const {
  if (pid_ > 0) kill(pid_, signal);
}

std::string Process::out() const {
  const std::lock_guard lock(out_.mutex);
  return out_.text;
}

std::string Process::err() const {
  const std::lock_guard lock(err_.mutex);
  return err_.text;
}

bool Process::shows(std::string_view text, int times, std::chrono::milliseconds limit) const {
  const Clock::time_point deadline = Clock::now() + limit;
  while (count(out(), text) < times && count(err(), text) < times) {
    if (Clock::now() > deadline) return false;
    std::this_thread::sleep_for(5ms);
  }
  return true;
}

ProcessResult Process::wait(std::chrono::milliseconds limit) {
  const Clock::time_point deadline = Clock::now() + limit;
  ProcessResult result;
  int status = 0;
  while (waitpid(pid_, &status, WNOHANG) == 0) {
    if (!result.timed_out && Clock::now() >= deadline) {
      result.timed_out = true;
      kill(-pid_, SIGKILL);  // ranks have groups of their own, and end with their launcher
    }
    std::this_thread::sleep_for(2ms);
  }
  result.seconds = std::chrono::duration<double>(Clock::now() - started_).count();
  pid_ = -1;
  out_.reader.join();
  err_.reader.join();
  close(out_.descriptor);
  close(err_.descriptor);
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  result.out = out_.text;
  result.err = err_.text;
  return result;
}

ProcessResult run_process(std::vector<std::string> command,
                          const ProcessOptions& options,
                          std::chrono::milliseconds limit) {
  return Process(std::move(command), options).wait(limit);
}

std::vector<pid_t> processes_with(std::string_view entry) {
  std::vector<pid_t> found;
  for (const auto& folder : std::filesystem::directory_iterator("/proc")) {
    const std::string name = folder.path().filename();
    if (!std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isdigit(c); })) {
      continue;
    }
    // It is empty for a zombie.
    const std::string environment = '\0' + testing::read_file(folder.path() / "environ");
    if (environment.find('\0' + std::string(entry) + '\0') == std::string::npos) continue;
    found.push_back(static_cast<pid_t>(std::stoi(name)));
  }
  return found;
}

std::vector<pid_t> survivors_with(std::string_view entry, std::chrono::milliseconds limit) {
  const Clock::time_point deadline = Clock::now() + limit;
  std::vector<pid_t> found = processes_with(entry);
  while (!found.empty() && Clock::now() < deadline) {
    std::this_thread::sleep_for(10ms);
    found = processes_with(entry);
  }
  return found;
}

}  // namespace tessera
