#include "kernel/launch/rank_process.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "kernel/launch/environment.hpp"
#include "kernel/launch/signals.hpp"
#include "kernel/launch/stuck_process.hpp"
#include "tessera/error.hpp"

namespace tessera {

namespace {

constexpr std::size_t kLongestLine = 64UL * 1024;

struct Pipe {
  int read = -1, write = -1;
  Pipe() {
    int ends[2];
    require(pipe2(ends, O_CLOEXEC) == 0, "launch: cannot open a pipe: {}", SystemError());
    read = ends[0];
    write = ends[1];
    fcntl(read, F_SETFL, O_NONBLOCK);
  }
  ~Pipe() {
    if (read >= 0) close(read);
    if (write >= 0) close(write);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  int take_read() { return std::exchange(read, -1); }
};

void close_end(int& descriptor) {
  if (descriptor >= 0) close(descriptor);
  descriptor = -1;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> list;
  list.reserve(texts.size() + 1);
  for (std::string& text : texts) list.push_back(text.data());
  list.push_back(nullptr);
  return list;
}

// Between fork and exec, where another thread of the launcher may hold any lock: system calls only.
struct Child {
  const char* path;
  char* const* arguments;
  char* const* environment;
  int output, report;
  bool own_standard_output;
  pid_t parent;
  const CpuMask* processors;  // nullptr: those of the launcher

  [[noreturn]] void run() const {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);               // it died before it was watched
    if (processors != nullptr) processors->apply();  // before OpenMP is loaded and looks at it
    // Blocked so far, as in the launcher's thread (StopFlag): its handlers must not run here.
    sigset_t taken;
    sigemptyset(&taken);
    const auto take = [&](int signal) {
      struct sigaction now {};
      sigaction(signal, nullptr, &now);
      if (now.sa_handler != SIG_IGN) std::signal(signal, SIG_DFL);
      sigaddset(&taken, signal);
    };
    for (const int signal : kStopSignals) take(signal);
    take(SIGTSTP);
    sigprocmask(SIG_UNBLOCK, &taken, nullptr);
    std::signal(SIGTTOU, SIG_IGN);  // a background group may still write to the terminal
    const int nothing = open("/dev/null", O_RDONLY);
    if (nothing >= 0) dup2(nothing, STDIN_FILENO);
    dup2(output, STDERR_FILENO);
    if (!own_standard_output) dup2(output, STDOUT_FILENO);
    if (nothing > STDERR_FILENO) close(nothing);
    fcntl(report, F_SETFD, 0);
    execve(path, arguments, environment);
    const char* const why = strerrordesc_np(errno);
    const char* const words[] = {"cannot start ", path, ": ", why, "\n"};
    for (const char* word : words) {
      if (write(STDERR_FILENO, word, std::strlen(word)) < 0) break;
    }
    _exit(127);
  }
};

// True while there may be more. At the end of the stream the descriptor is closed.
bool read_some(int& descriptor, std::string& bytes) {
  std::array<char, 16UL * 1024> buffer;
  const ssize_t count = read(descriptor, buffer.data(), buffer.size());
  if (count > 0) {
    bytes.append(buffer.data(), static_cast<std::size_t>(count));
    return true;
  }
  if (count < 0 && errno == EINTR) return true;
  if (count == 0 || errno != EAGAIN) close_end(descriptor);
  return false;
}

}  // namespace

RankProcess::RankProcess(i64 rank, const RankProgram& program) {
  end_.rank = rank;
  Pipe output, report;
  std::vector<std::string> arguments = program.arguments;
  std::vector<std::string> environment = program.environment;
  environment.push_back(fmt::format("{}={}", kRankVariable, rank));
  environment.push_back(fmt::format("{}={}", kReportVariable, report.write));
  const std::vector<char*> argument_list = pointers(arguments);
  const std::vector<char*> environment_list = pointers(environment);

  const Child child{.path = program.path.c_str(),
                    .arguments = argument_list.data(),
                    .environment = environment_list.data(),
                    .output = output.write,
                    .report = report.write,
                    .own_standard_output = rank == 0,
                    .parent = getpid(),
                    .processors = program.processors.empty()
                                      ? nullptr
                                      : &program.processors.at(static_cast<std::size_t>(rank))};
  pid_ = fork();
  if (pid_ == 0) child.run();
  require(pid_ > 0, "launch: cannot start rank {}: {}", rank, SystemError());
  setpgid(pid_, pid_);  // in both, because either may be first; too late after exec
  output_ = output.take_read();
  report_ = report.take_read();
}

RankProcess::~RankProcess() {
  if (running()) {
    kill_all();
    waitpid(pid_, nullptr, 0);
  }
  close_end(output_);
  close_end(report_);
}

void RankProcess::send(int signal) const {
  if (running()) kill(pid_, signal);
}

void RankProcess::kill_all() const {
  if (!running()) return;
  kill(pid_, SIGKILL);
  kill(-pid_, SIGKILL);
}

bool RankProcess::frozen() const {
  if (!running()) return false;
  const char state = process_state(fmt::format("/proc/{}/stat", pid_));
  return state == 'T' || state == 't';
}

std::string RankProcess::why_stuck() const { return running() ? stuck_text(pid_) : std::string(); }

void RankProcess::give_up() {
  if (!running()) return;
  end_.stuck = why_stuck();
  // What it said of others was a consequence.
  if (end_.report && blames_peer(end_.report->error.kind())) end_.report.reset();
  pid_ = -1;
  close_end(output_);
  close_end(report_);
}

void RankProcess::add_to(std::vector<pollfd>& polled) const {
  for (const int descriptor : {output_, report_}) {
    if (descriptor >= 0) polled.push_back({.fd = descriptor, .events = POLLIN, .revents = 0});
  }
}

void RankProcess::attend(i64 look) {
  if (output_ >= 0) read_lines();
  if (running()) reap(look);
}

// A bounded piece a look, so that a rank that never stops writing does not hide the others.
void RankProcess::read_lines() {
  for (int i = 0; i < 8 && output_ >= 0 && read_some(output_, partial_line_); ++i) {
    std::size_t start = 0;
    for (std::size_t end; (end = partial_line_.find('\n', start)) != std::string::npos;) {
      pass_on(std::string_view(partial_line_).substr(start, end - start));
      start = end + 1;
    }
    partial_line_.erase(0, start);
    if (partial_line_.size() >= kLongestLine) {
      pass_on(partial_line_);
      partial_line_.clear();
    }
  }
}

bool RankProcess::read_report(i64 look) {
  if (report_ < 0) return false;
  while (report_ >= 0 && read_some(report_, report_bytes_)) {
  }
  if (end_.report) return false;
  end_.report = decode(report_bytes_);
  const bool shown = end_.report || report_ < 0;
  if (shown) end_.noticed = look;
  return shown;
}

void RankProcess::pass_on(std::string_view line) {
  write_all(STDERR_FILENO, fmt::format("[rank {}] {}\n", end_.rank, line));
  if (!line.empty()) end_.last_line = line.substr(0, 1000);
}

void RankProcess::reap(i64 look) {
  siginfo_t info{};
  const auto id = static_cast<id_t>(pid_);
  if (waitid(P_PID, id, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return;
  // Its number is ours until it is waited for, so this hits nobody else.
  kill(-pid_, SIGKILL);
  waitid(P_PID, id, &info, WEXITED);
  pid_ = -1;
  if (info.si_code == CLD_EXITED) {
    end_.exit_code = info.si_status;
  } else {
    end_.signal = info.si_status;
  }
  if (end_.noticed == 0) end_.noticed = look;
  finish_output();
}

// All writers are dead, and one reading takes more than a pipe holds.
void RankProcess::finish_output() {
  if (output_ >= 0) read_lines();
  if (!partial_line_.empty()) pass_on(partial_line_);
  partial_line_.clear();
  close_end(output_);
  read_report(end_.noticed);
  close_end(report_);
}

}  // namespace tessera
