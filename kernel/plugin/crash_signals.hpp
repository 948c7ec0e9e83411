#pragma once
#include <array>
#include <csignal>

namespace tessera {

/// The signals of a crash, handed to one handler and back. Signal handlers may call it.
class CrashSignals {
 public:
  void handle(const struct sigaction& action) {
    for (std::size_t i = 0; i < kAll.size(); ++i) sigaction(kAll[i], &action, &before_[i]);
  }
  void restore() {
    for (std::size_t i = 0; i < kAll.size(); ++i) sigaction(kAll[i], &before_[i], nullptr);
  }

 private:
  static constexpr std::array kAll = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
  std::array<struct sigaction, kAll.size()> before_{};
};

}  // namespace tessera
