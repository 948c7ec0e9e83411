// Who is no rank of a run cannot join it, and cannot end it.
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <iterator>

#include "train_support.hpp"

namespace tessera::testing {
namespace strangers_test {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

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

// A message either way (kernel/comm/store_wire.hpp): a hello, or an answer that refuses.
std::string message(std::int64_t number,
                    std::int64_t world,
                    const std::string& key,
                    const std::string& value) {
  std::string body = "TSS1" + std::string(1, '\0') + bytes_of(number) + bytes_of(world);
  for (const std::string& text : {key, value}) {
    body += bytes_of(static_cast<std::uint32_t>(text.size())) + text;
  }
  return bytes_of(static_cast<std::uint32_t>(body.size())) + body;
}

// What a rank says first.
std::string hello(std::int64_t rank, std::int64_t world, const std::string& token) {
  return message(rank, world, token, "primary");
}

// All that a stranger is told.
std::string refusal(const std::string& why) {
  const std::int64_t exit_code = 1;
  return message(exit_code, 0, why, "");
}

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
  EXPECT_EQ(say(store, hello(1, 2, "a guess")),
            refusal("wrong run token (TESSERA_RUN_TOKEN differs, or it is another run's store)"));
  EXPECT_EQ(say(store, hello(1, 3, token)), refusal("this run has 2 ranks, not 3"));
  EXPECT_EQ(say(store, hello(7, 2, token)), refusal("there is no rank 7 among 2"));
  EXPECT_EQ(say(store, hello(1, 2, token)), refusal("rank 1 is here already"));

  const ProcessResult result = disturbed.wait();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("store: refused a connection from this host"));
  EXPECT_THAT(run.metrics("run"), ElementsAreArray(run.metrics("whole")));
  EXPECT_THAT(run.survivors(), IsEmpty());
}

}  // namespace strangers_test
}  // namespace tessera::testing
