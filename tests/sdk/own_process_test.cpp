// A program of one's own that links the libraries keeps its process as it is: its exit, its signals
// and its threads are the program's, and nothing is forked.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <tessera/testing/local_world.hpp>
#include <thread>

namespace tessera {
namespace own_process_test {

const std::filesystem::path kOwn = "/proc/self/task";

std::ptrdiff_t threads() { return std::distance(std::filesystem::directory_iterator(kOwn), {}); }

// Those of all threads, by the system's numbers.
std::string children() {
  std::string all;
  for (const auto& thread : std::filesystem::directory_iterator(kOwn)) {
    std::ifstream file(thread.path() / "children");
    for (std::string pid; file >> pid;) all += pid + " ";
  }
  return all;
}

// Signals that are handled, by number.
std::vector<int> handled() {
  std::vector<int> found;
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction action {};
    if (sigaction(signal, nullptr, &action) != 0) continue;  // two are the C library's own
    if (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN) found.push_back(signal);
  }
  return found;
}

std::string home_of(void* function) {
  Dl_info info{};
  return dladdr(function, &info) == 0 ? "nowhere" : info.dli_fname;
}

TEST(OwnProcess, KeepsItsExitItsSignalsAndItsThreads) {
  const std::vector<int> handled_before = handled();
  const std::ptrdiff_t threads_before = threads();
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_THAT(handled_before, ::testing::IsEmpty());
#endif
  const testing::LocalWorld world({TESSERA_BUILD_DIR "/plugins"});
  world.run({.layout = {.world = 2, .tensor = 2}}, [&](testing::LocalRank& rank) {
    rank.tensor({2}, {1, 2});
    EXPECT_THAT(handled(), ::testing::ElementsAreArray(handled_before));
    EXPECT_EQ(children(), "");
  });
  EXPECT_THAT(handled(), ::testing::ElementsAreArray(handled_before));
  EXPECT_EQ(children(), "");
  // The system forgets a thread shortly after it was joined.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (threads() > threads_before && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_EQ(threads(), threads_before);
  for (void* function : {reinterpret_cast<void*>(&::_exit), reinterpret_cast<void*>(&::_Exit)}) {
    EXPECT_THAT(home_of(function), ::testing::HasSubstr("/libc.so"));
  }
}

}  // namespace own_process_test
}  // namespace tessera
