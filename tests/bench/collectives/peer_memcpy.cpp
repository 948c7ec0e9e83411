// The machine's limit: two threads copy N bytes each, as two ranks that read each other would.
//
// Prints the median time until both are done, as JSON.
// Usage: peer_memcpy --bytes N [--iterations K]

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

long option(int argc, char** argv, const char* name, long fallback) {
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::strcmp(argv[i], name) == 0) return std::atol(argv[i + 1]);
  }
  return fallback;
}

// A barrier of two that spins: waking a sleeper would cost more than a small copy.
class Meeting {
 public:
  void arrive(int round) {
    arrived_.fetch_add(1);
    while (arrived_.load() < 2 * round) std::this_thread::yield();
  }

 private:
  std::atomic<int> arrived_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const long bytes = option(argc, argv, "--bytes", 1 << 20);
  const long iterations = option(argc, argv, "--iterations", 100);

  const auto size = static_cast<std::size_t>(bytes);
  std::vector<std::vector<char>> from(2, std::vector<char>(size, 1));
  std::vector<std::vector<char>> to(2, std::vector<char>(size, 2));
  std::vector<double> microseconds;
  Meeting meeting;

  const auto copy = [&](int thread) {
    int round = 0;
    for (long step = -iterations / 10; step < iterations; ++step) {
      meeting.arrive(++round);
      const Clock::time_point begin = Clock::now();
      std::memcpy(to[thread].data(), from[1 - thread].data(), size);
      meeting.arrive(++round);
      const std::chrono::duration<double, std::micro> took = Clock::now() - begin;
      if (thread == 0 && step >= 0) microseconds.push_back(took.count());
    }
  };
  std::thread other(copy, 1);
  copy(0);
  other.join();

  std::sort(microseconds.begin(), microseconds.end());
  std::printf(
      "{\"bytes\": %ld, \"median_us\": %.3f}\n", bytes, microseconds[microseconds.size() / 2]);
  return 0;
}
