#include "kernel/launch/stuck_process.hpp"

#include <gmock/gmock.h>
#include <unistd.h>

#include "tests/common/test_folder.hpp"

namespace tessera {
namespace stuck_process_test {

using testing::TestFolder;

// A folder as /proc.
class StuckProcess : public ::testing::Test {
 protected:
  void thread(const std::string& number, const std::string& state) const {
    folder_.write("47/task/" + number + "/stat", number + " (any) name) " + state + " 1 47 47 0");
  }
  std::string text() const { return stuck_text(47, folder_.path()); }
  const TestFolder folder_;
};

TEST_F(StuckProcess, SaysWhereItWaits) {
  thread("47", "D");
  EXPECT_EQ(text(), "process 47 is in state D (no signal reaches it)");
  folder_.write("47/task/47/wchan", "nfs_wait_bit");
  EXPECT_EQ(text(), "process 47 is in state D (no signal reaches it) and waits in nfs_wait_bit");
  folder_.write("47/task/47/stack",
                "[<0>] rpc_wait+0x1f/0x90\n[<0>] nfs4_getattr+0xd0/0x140\n[<0>] a+0x1/0x2\n"
                "[<0>] b+0x1/0x2\n[<0>] c+0x1/0x2\n[<0>] d+0x1/0x2\n");
  EXPECT_EQ(text(),
            "process 47 is in state D (no signal reaches it) and waits in rpc_wait, called by "
            "nfs4_getattr, a, b, c");
}

// The others have obeyed: then /proc shows the process itself as dead.
TEST_F(StuckProcess, OneOfItsThreadsIsEnough) {
  folder_.write("47/stat", "47 (any) Z 1 47 47 0");
  thread("47", "Z");
  thread("52", "D");
  thread("100", "D");
  folder_.write("47/task/52/wchan", "folio_wait");
  EXPECT_EQ(text(),
            "thread 52 of process 47 is in state D (no signal reaches it) and waits in folio_wait "
            "(and 1 more of its threads)");
}

TEST_F(StuckProcess, AnyOtherStateIsToldAsItIs) {
  EXPECT_EQ(text(), "process 47 is gone");
  folder_.write("47/stat", "47 (any) R 1 47 47 0");
  EXPECT_EQ(text(), "process 47 is in state R");
}

TEST_F(StuckProcess, TheSystemTellsOfThisOne) {
  EXPECT_EQ(process_state("/proc/thread-self/stat"), 'R');
  EXPECT_EQ(process_state(folder_.path() / "none"), '\0');
}

}  // namespace stuck_process_test
}  // namespace tessera
