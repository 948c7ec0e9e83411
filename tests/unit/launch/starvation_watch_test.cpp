#include "kernel/launch/starvation_watch.hpp"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/common/test_folder.hpp"

namespace tessera {
namespace starvation_watch_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

class Starvation : public ::testing::Test {
 protected:
  void write_kills(int count) const {
    folder_.write("proc/self/cgroup", "0::/job\n");
    folder_.write("groups/job/memory.events", "oom_kill " + std::to_string(count) + "\n");
    folder_.write("groups/job/memory.max", "2147483648\n");
  }
  // What a watched process and its watcher say, when it ends by itself or is killed; `kills` is
  // the system's count then.
  std::string said(bool killed, int kills) const {
    write_kills(1);
    std::array<int, 2> said{}, made{}, go{};
    EXPECT_EQ(pipe(said.data()) | pipe(made.data()) | pipe(go.data()), 0);
    const pid_t child = fork();
    if (child == 0) {
      dup2(said[1], STDERR_FILENO);
      close(said[1]);
      close(go[1]);
      {
        const StarvationWatch watch(folder_.at("proc"), folder_.at("groups"));
        char byte = 0;
        [[maybe_unused]] auto count = write(made[1], "m", 1);
        count = read(go[0], &byte, 1);  // the end of `go`
        if (killed) raise(SIGKILL);
      }
      _exit(0);
    }
    close(said[1]);
    close(go[0]);
    char byte = 0;
    EXPECT_EQ(read(made[0], &byte, 1), 1);  // the watch is there
    close(made[0]);
    close(made[1]);
    write_kills(kills);
    close(go[1]);
    std::string text;
    char bytes[512];
    for (ssize_t count = 0; (count = read(said[0], bytes, sizeof bytes)) > 0;) {
      text.append(bytes, static_cast<std::size_t>(count));
    }
    close(said[0]);
    waitpid(child, nullptr, 0);
    return text;
  }
  const testing::TestFolder folder_;
};

TEST_F(Starvation, TheSystemKilledItForWantOfMemory) {
  EXPECT_THAT(said(true, 2),
              AllOf(StartsWith("process "),
                    HasSubstr(" was killed by the system because memory ran out; memory.max of its "
                              "control group is 2.00 GiB: use less of it")));
}

TEST_F(Starvation, OtherEndsAreNoneOfItsBusiness) {
  EXPECT_THAT(said(true, 1), IsEmpty()) << "somebody's kill -9";
  EXPECT_THAT(said(false, 2), IsEmpty()) << "another process was the victim";
}

// The child of this process, by the name that it gives itself.
pid_t watcher() {
  for (;;) {
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      std::ifstream status(entry.path() / "status");
      std::string line, name, parent;
      while (std::getline(status, line)) {
        if (line.starts_with("Name:\t")) name = line.substr(6);
        if (line.starts_with("PPid:\t")) parent = line.substr(6);
      }
      if (name == "tessera-watch" && parent == std::to_string(getpid())) {
        return std::stoi(entry.path().filename());
      }
    }
  }
}

TEST_F(Starvation, AWatcherThatIsStoppedDelaysNobody) {
  write_kills(1);
  pid_t stopped = 0;
  {
    const StarvationWatch watch(folder_.at("proc"), folder_.at("groups"));
    stopped = watcher();
    kill(stopped, SIGSTOP);
  }
  EXPECT_NE(kill(stopped, 0), 0) << "it is gone";
}

}  // namespace starvation_watch_test
}  // namespace tessera
