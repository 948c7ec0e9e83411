#include "kernel/system/limits.hpp"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include "tests/common/test_folder.hpp"

namespace tessera {
namespace limits_test {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A soft limit while it lives.
class Limit {
 public:
  Limit(__rlimit_resource resource, rlim_t value) : resource_(resource) {
    getrlimit(resource_, &before_);
    rlimit now = before_;
    now.rlim_cur = value;
    EXPECT_EQ(setrlimit(resource_, &now), 0);
  }
  ~Limit() { setrlimit(resource_, &before_); }
  Limit(const Limit&) = delete;
  Limit& operator=(const Limit&) = delete;

 private:
  __rlimit_resource resource_;
  rlimit before_{};
};

TEST(Limits, AreNamedWithTheirValues) {
  {
    const Limit limit(RLIMIT_NOFILE, 345);
    EXPECT_EQ(explain_limit(Error("cannot open a pipe").add(resource_of(EMFILE))),
              "the limit of open files (ulimit -n) is 345");
  }
  {
    const Limit limit(RLIMIT_NPROC, 4321);
    EXPECT_THAT(explain_limit(Error("cannot start rank 3").add(resource_of(EAGAIN))),
                HasSubstr("processes and threads of this user (ulimit -u) is 4321"));
  }
  {
    const Error error = Error("shm: cannot make a segment").add(resource_of(EFBIG));
    EXPECT_THAT(explain_limit(error), IsEmpty()) << "of the file system then";
    const Limit limit(RLIMIT_FSIZE, 64 << 20);
    EXPECT_EQ(explain_limit(error), "the limit of the size of a file (ulimit -f) is 65536 KiB");
  }
// Sanitizers take terabytes of address space.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  const Limit limit(RLIMIT_AS, rlim_t{64} << 30);
  const Error error = Error("out of memory").add(Resource::memory);
  EXPECT_THAT(explain_limit(error),
              HasSubstr("the limit of virtual memory (ulimit -v) is 64.00 GiB, of which "));
  EXPECT_THAT(explain_limit(with_limit(error)), IsEmpty()) << "it was said";
  EXPECT_THAT(explain_words("std::bad_alloc"), HasSubstr("(ulimit -v) is 64.00 GiB"));
  // Where there is room for a thread's stack, either limit may have been reached.
  EXPECT_THAT(explain_words("Resource temporarily unavailable"),
              ::testing::AllOf(HasSubstr("(ulimit -v)"), HasSubstr("; the ")));
#endif
}

TEST(Limits, OtherErrorsHaveNone) {
  EXPECT_THAT(explain_limit(Error("the disk is full").add(resource_of(ENOSPC))), IsEmpty());
  EXPECT_THAT(explain_words("the disk is full"), IsEmpty());
}

TEST(Limits, RoomForThreadsIsTheLeastThatALimitLeaves) {
  const testing::TestFolder folder;
  const auto room = [&] { return room_for_threads(folder.at("proc"), folder.at("groups")); };
  folder.write("proc/self/cgroup", "0::/job/step\n");
  folder.write("groups/job/step/pids.max", "max\n");
  folder.write("groups/job/step/pids.current", "3\n");
  folder.write("proc/self/uid_map", "         0          0 4294967295\n");
  EXPECT_GT(room(), 1 << 20) << "nothing limits it";
  folder.write("groups/job/pids.max", "20\n");
  folder.write("groups/job/pids.current", "13\n");
  EXPECT_EQ(room(), 7);
  folder.write("groups/job/pids.current", "21\n");
  EXPECT_EQ(room(), 0);
// Sanitizers take terabytes of address space.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  folder.write("groups/job/pids.current", "0\n");
  const Limit limit(RLIMIT_AS, rlim_t{1} << 20);
  EXPECT_EQ(room(), 0);
#endif
}

class Kills : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) const { folder_.write(name, text); }
  std::optional<OutOfMemoryKills> kills() const {
    return out_of_memory_kills(folder_.at("proc"), folder_.at("groups"));
  }
  const testing::TestFolder folder_;
};

TEST_F(Kills, OfAControlGroup) {
  write("proc/self/cgroup", "0::/job/step\n");
  write("groups/job/step/memory.events", "low 0\noom 3\noom_kill 2\n");
  write("groups/job/step/memory.max", "2147483648\n");
  ASSERT_TRUE(kills());
  EXPECT_EQ(kills()->count, 2);
  EXPECT_EQ(kills()->limit, "memory.max of its control group is 2.00 GiB");
  write("groups/job/step/memory.max", "max\n");
  EXPECT_THAT(kills()->limit, IsEmpty());
}

// A task of a batch system has no limit of its own, but its job has.
TEST_F(Kills, OfAControlGroupBelowTheOneWithTheLimit) {
  write("proc/self/cgroup", "0::/job/step/task\n");
  write("groups/job/step/task/memory.events", "oom 1\noom_kill 1\n");
  write("groups/job/step/task/memory.max", "max\n");
  write("groups/job/step/memory.max", "3221225472\n");
  write("groups/job/memory.max", "4294967296\n");
  ASSERT_TRUE(kills());
  EXPECT_EQ(kills()->count, 1);
  EXPECT_EQ(kills()->limit, "memory.max of its control group is 3.00 GiB");
}

TEST_F(Kills, OfVersionOneSeenFromAContainer) {
  write("proc/self/cgroup", "5:memory:/outside/name\n0::/\n");
  write("groups/memory/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n");
  write("groups/memory/memory.limit_in_bytes", "1073741824\n");
  ASSERT_TRUE(kills());
  EXPECT_EQ(kills()->count, 4);
  EXPECT_EQ(kills()->limit, "memory.limit_in_bytes of its control group is 1.00 GiB");
}

TEST_F(Kills, OfTheWholeSystem) {
  EXPECT_FALSE(kills());
  write("proc/vmstat", "pgfault 12\noom_kill 7\n");
  write("proc/meminfo", "MemTotal:       16777216 kB\nMemFree: 1 kB\n");
  ASSERT_TRUE(kills());
  EXPECT_EQ(kills()->count, 7);
  EXPECT_EQ(kills()->limit, "the memory of the host is 16.00 GiB");
}

}  // namespace limits_test
}  // namespace tessera
