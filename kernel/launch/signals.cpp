#include "kernel/launch/signals.hpp"

#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <ctime>
#include <exception>

#include "tessera/error.hpp"
#include "tessera/types.hpp"

namespace tessera {

namespace {

// A handler gets nothing but the signal's number, so what it writes to must be global. Lock-free
// atomics, because the signal may arrive on any thread.
std::atomic<bool> installed{false};
std::atomic<bool> second_dies{true};
std::atomic<bool> begun{true};
std::atomic<int> first_signal{0};
std::atomic<int> interrupt_count{0};
std::atomic<i64> interrupted_at{0};
std::atomic<int> termination_count{0};
std::atomic<bool> suspension_asked{false};
std::atomic<bool> closed{false};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free &&
              std::atomic<i64>::is_always_lock_free);

std::array<struct sigaction, kStopSignals.size()> old_stops;
struct sigaction old_pipe, old_suspend;

// The signal is blocked while its handler runs, so it takes effect on return.
void die_of(int signal) {
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

// One interrupt may arrive twice: `timeout -s INT` sends it to a process and to its group.
bool is_another_interrupt() {
  constexpr i64 kAgainNs = 500'000'000;
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const i64 at = now.tv_sec * 1'000'000'000 + now.tv_nsec;
  if (at - interrupted_at <= kAgainNs) return false;
  interrupted_at = at;
  return true;
}

extern "C" void tessera_note_signal(int signal) {
  if (!begun) return die_of(signal);
  int none = 0;
  first_signal.compare_exchange_strong(none, signal);
  if (signal != SIGINT) {
    ++termination_count;
  } else if (!is_another_interrupt()) {
    return;
  } else if (++interrupt_count > 1 && second_dies) {
    die_of(SIGINT);
  }
}

extern "C" void tessera_note_suspension(int) { suspension_asked = true; }

// Connections between ranks may break too; their writers see the error themselves.
extern "C" void tessera_note_broken_pipe(int signal) {
  const int error = errno;
  pollfd outputs[2] = {{STDOUT_FILENO, 0, 0}, {STDERR_FILENO, 0, 0}};
  poll(outputs, 2, 0);
  if (((outputs[0].revents | outputs[1].revents) & POLLERR) != 0) {
    closed = true;
    int none = 0;
    first_signal.compare_exchange_strong(none, signal);
  }
  errno = error;
}

}  // namespace

StopFlag::StopFlag(SecondInterrupt second, Requests requests)
    : from_begin_(requests == Requests::from_begin) {
  require(!installed.exchange(true), "StopFlag: one is installed already");
  second_dies = second == SecondInterrupt::dies;
  begun = requests == Requests::from_now;
  first_signal = 0;
  interrupt_count = 0;
  interrupted_at = 0;
  termination_count = 0;
  suspension_asked = false;
  closed = false;
  struct sigaction action {};
  action.sa_handler = tessera_note_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigset_t taken;
  sigemptyset(&taken);
  for (std::size_t i = 0; i < kStopSignals.size(); ++i) {
    sigaction(kStopSignals[i], nullptr, &old_stops[i]);
    if (kStopSignals[i] == SIGHUP && old_stops[i].sa_handler == SIG_IGN) continue;
    sigaction(kStopSignals[i], &action, nullptr);
    sigaddset(&taken, kStopSignals[i]);
  }
  sigaction(SIGTSTP, nullptr, &old_suspend);
  if (second == SecondInterrupt::counted && old_suspend.sa_handler != SIG_IGN) {
    action.sa_handler = tessera_note_suspension;
    sigaction(SIGTSTP, &action, nullptr);
    sigaddset(&taken, SIGTSTP);
  }
  action.sa_handler = tessera_note_broken_pipe;
  sigaction(SIGPIPE, nullptr, &old_pipe);
  if (old_pipe.sa_handler != SIG_IGN) sigaction(SIGPIPE, &action, nullptr);

  pthread_sigmask(SIG_BLOCK, &taken, &mask_before_);
  sem_init(&over_, 0, 0);
  listener_ = std::thread([this, taken] {
    pthread_sigmask(SIG_UNBLOCK, &taken, nullptr);
    while (sem_wait(&over_) != 0) {  // a signal came
    }
  });
}

StopFlag::~StopFlag() {
  sem_post(&over_);
  listener_.join();
  sem_destroy(&over_);
  const bool done = from_begin_ && begun && std::uncaught_exceptions() == 0;
  for (std::size_t i = 0; i < kStopSignals.size() && !done && !requested(); ++i) {
    sigaction(kStopSignals[i], &old_stops[i], nullptr);
  }
  sigaction(SIGTSTP, &old_suspend, nullptr);
  sigaction(SIGPIPE, &old_pipe, nullptr);
  pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
  installed = false;
}

void StopFlag::begin() { begun = true; }

int StopFlag::signal() const { return first_signal; }
int StopFlag::interrupts() const { return interrupt_count; }
int StopFlag::terminations() const { return termination_count; }
bool StopFlag::suspension() const { return suspension_asked; }

void StopFlag::suspend() const {
  struct sigaction ours {
  }, theirs{};
  theirs.sa_handler = SIG_DFL;
  sigset_t suspending;
  sigemptyset(&suspending);
  sigaddset(&suspending, SIGTSTP);
  sigaction(SIGTSTP, &theirs, &ours);
  pthread_sigmask(SIG_UNBLOCK, &suspending, nullptr);
  std::raise(SIGTSTP);
  pthread_sigmask(SIG_BLOCK, &suspending, nullptr);
  sigaction(SIGTSTP, &ours, nullptr);
  suspension_asked = false;  // that stop was for all that came
}

bool StopFlag::output_closed() const { return closed; }

}  // namespace tessera
