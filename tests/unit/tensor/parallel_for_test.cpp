#include "tessera/parallel_for.hpp"

#include <dlfcn.h>

#include <mutex>
#include <thread>
#include <vector>

#include "tensor_support.hpp"

namespace tessera {
namespace parallel_for_test {

std::vector<std::pair<i64, i64>> ranges(i64 n, i64 grain) {
  std::mutex mutex;
  std::vector<std::pair<i64, i64>> result;
  parallel_for(n, grain, [&](i64 begin, i64 end) {
    const std::lock_guard lock(mutex);
    result.emplace_back(begin, end);
  });
  std::sort(result.begin(), result.end());
  return result;
}

class ParallelFor : public ::testing::Test {
 protected:
  ~ParallelFor() override { set_parallel_threads(1); }
};

TEST_F(ParallelFor, CoversTheRangeOnce) {
  for (const int threads : {1, 2, 3, 8}) {
    set_parallel_threads(threads);
    EXPECT_EQ(parallel_threads(), threads);
    for (const i64 n : {1, 2, 7, 100, 1001}) {
      i64 expected = 0;
      const auto all = ranges(n, 3);
      EXPECT_LE(all.size(), static_cast<std::size_t>(threads));
      for (const auto& [begin, end] : all) {
        EXPECT_EQ(begin, expected);
        EXPECT_GT(end, begin);
        EXPECT_TRUE(all.size() == 1 || end - begin >= 3);
        expected = end;
      }
      EXPECT_EQ(expected, n);
    }
  }
  EXPECT_TRUE(ranges(0, 1).empty());
}

TEST_F(ParallelFor, UsesTheThreadsOfItsCaller) {
  set_parallel_threads(4);
  std::thread([] {
    EXPECT_EQ(parallel_threads(), 1);
    set_parallel_threads(2);
    EXPECT_EQ(ranges(100, 1).size(), 2);
  }).join();
  EXPECT_EQ(ranges(100, 1).size(), 4);
}

TEST_F(ParallelFor, TellsLibrariesOverOpenMP) {
  using Threads = int (*)();
  const auto openmp = reinterpret_cast<Threads>(dlsym(RTLD_DEFAULT, "omp_get_max_threads"));
  ASSERT_NE(openmp, nullptr);
  std::thread([&] {
    EXPECT_EQ(parallel_threads(), 1);
    EXPECT_EQ(openmp(), 1) << "also where nobody has set anything";
    set_parallel_threads(3);
    EXPECT_EQ(openmp(), 3);
  }).join();
}

#ifndef __SANITIZE_THREAD__
TEST_F(ParallelFor, RunsOnSeveralThreads) {
  set_parallel_threads(3);
  std::mutex mutex;
  std::vector<std::thread::id> ids;
  parallel_for(3, 1, [&](i64, i64) {
    const std::lock_guard lock(mutex);
    ids.push_back(std::this_thread::get_id());
  });
  std::sort(ids.begin(), ids.end());
  EXPECT_EQ(std::unique(ids.begin(), ids.end()) - ids.begin(), 3);
}
#endif

TEST_F(ParallelFor, NeedsAThread) {
  EXPECT_ERROR(set_parallel_threads(0), "a rank needs at least one CPU thread, not 0");
}

}  // namespace parallel_for_test
}  // namespace tessera
