// Who is no rank of a run cannot join it, and cannot end it.
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>

#include "common/other_user.hpp"
#include "train_support.hpp"

namespace tessera::testing {
namespace strangers_test {

using ::testing::ElementsAreArray;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// One variable of a process; empty when it has none.
std::string variable_of(pid_t pid, const std::string& name) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/environ", std::ios::binary);
  const std::string all = '\0' + std::string(std::istreambuf_iterator<char>(file), {}) + '\0';
  const std::size_t at = all.find('\0' + name + "=");
  if (at == std::string::npos) return "";
  const std::size_t begin = at + name.size() + 2;
  return all.substr(begin, all.find('\0', begin) - begin);
}

template <class T>
std::string bytes_of(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

// A message either way (kernel/comm/store_wire.hpp).
std::string message(char code,
                    std::int64_t number,
                    std::int64_t world,
                    const std::string& key,
                    const std::string& value) {
  std::string body = "TSS3" + std::string(1, code) + bytes_of(number) + bytes_of(world);
  for (const std::string& text : {key, value}) {
    body += bytes_of(static_cast<std::uint32_t>(text.size())) + text;
  }
  return bytes_of(static_cast<std::uint32_t>(body.size())) + body;
}

constexpr std::size_t kNumber = 32;  // bytes of a side's number, and of a proof

// What a rank says first, and what it would say then if it knew no token.
std::string hello(std::int64_t rank, std::int64_t world) {
  return message(0, rank, world, std::string(kNumber, 'n'), "primary");
}
std::string guessed_proof() { return message(1, 0, 0, std::string(kNumber, 'p'), ""); }

// All that a stranger is told.
std::string refusal(const std::string& why) { return message(0, 0, 0, why, ""); }

// Sends the bytes to the store at "unix:@name" and returns what it answers before it hangs up.
std::string say(const std::string& store, const std::string& bytes) {
  const std::string name = store.substr(std::string("unix:@").size());
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  EXPECT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&address), length), 0);
  EXPECT_EQ(send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL), ssize_t(bytes.size()));
  const timeval patience{20, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  std::string answer;
  char buffer[4096];
  for (ssize_t count; (count = recv(fd, buffer, sizeof buffer, 0)) != 0;) {
    if (count < 0) {
      ADD_FAILURE() << "the store neither answers nor hangs up";
      break;
    }
    answer.append(buffer, static_cast<std::size_t>(count));
  }
  close(fd);
  return answer;
}

TEST(Strangers, AreRefusedAndTheRunGoesOn) {
  const TinyRun run;
  const auto sets = [](const std::string& out) {
    return TinyRun::steps(300, out, {"parallel.data=2", "observers.console.every_steps=50"});
  };
  ASSERT_EQ(run.train(sets("whole")).exit_code, 0);

  Process disturbed(run.command(sets("run")), run.options());
  ASSERT_TRUE(disturbed.shows("step  50/")) << disturbed.err();
  const pid_t rank = rank_process(run.mark(), 0);
  const std::string store = variable_of(rank, "TESSERA_STORE");
  const std::string token = variable_of(rank, "TESSERA_RUN_TOKEN");
  ASSERT_THAT(store, HasSubstr("unix:@"));
  const auto too_long = [](const std::string& bytes) {
    return refusal("store: a message of " + bytes + " bytes, at most 4096 are allowed");
  };
  EXPECT_EQ(say(store, "GET / HTTP/1.1\r\nHost: tessera\r\n\r\n"), too_long("542393671"));
  EXPECT_EQ(say(store, std::string(5000, '\xff')), too_long("4294967295"));
  EXPECT_EQ(say(store, std::string(64, '\0')), refusal("store: a message is cut off"));
  const std::string no_proof = refusal(
      "it did not prove the run token (TESSERA_RUN_TOKEN differs, or it is no rank of this run)");
  EXPECT_EQ(say(store, guessed_proof()), refusal("store: the first message must be a hello"));
  // The store proves itself first: a number and a proof, both new each time.
  const std::string once = say(store, hello(1, 2) + guessed_proof());
  const std::string again = say(store, hello(1, 2) + guessed_proof());
  for (const std::string& said : {once, again}) {
    EXPECT_THAT(said, EndsWith(no_proof));
    EXPECT_EQ(said.size(), message(1, 0, 0, "", "").size() + 2 * kNumber + no_proof.size());
    EXPECT_THAT(said, Not(HasSubstr(token)));
  }
  EXPECT_NE(once, again);

  EXPECT_THAT(disturbed.wait(), Exits(0, "store: refused a connection from this host"));
  EXPECT_THAT(run.metrics("run"), ElementsAreArray(run.metrics("whole")));
  EXPECT_THAT(run.survivors(), IsEmpty());
}

// Another user has taken the name that follows from what everybody may know.
TEST(Strangers, ANameThatCanBeGuessedIsNotUsed) {
  if (!may_be_another_user()) GTEST_SKIP() << "only root can start a process of another user";
  const TinyRun run;
  const std::string id = "strangers-" + std::to_string(getpid());
  OtherUser stranger = OtherUser::listens("tessera-0-torchrun-" + id + "-29642-0");
  std::vector<std::unique_ptr<Process>> ranks;
  for (const char* rank : {"1", "0"}) {
    ProcessOptions options = run.options();
    options.environment.insert({{"RANK", rank},
                                {"WORLD_SIZE", "2"},
                                {"MASTER_ADDR", "127.0.0.1"},
                                {"MASTER_PORT", "29642"},
                                {"TORCHELASTIC_RUN_ID", id}});
    ranks.push_back(std::make_unique<Process>(run.command(TinyRun::steps(3, "run")), options));
  }
  for (const auto& rank : ranks) {
    const ProcessResult result = rank->wait();
    EXPECT_EQ(result.exit_code, 0) << result.err;
  }
  EXPECT_EQ(stranger.end(), "0 connections, 0 bytes, 0 descriptors");
}

}  // namespace strangers_test
}  // namespace tessera::testing
