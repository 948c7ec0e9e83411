// Whoever does not know the token learns nothing, and nothing that was said helps another time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <thread>

#include "kernel/comm/socket_store.hpp"
#include "tessera/error.hpp"
#include "tests/common/error_of.hpp"
#include "tests/common/other_user.hpp"

namespace tessera {
namespace store_handshake_test {

using testing::error_of;
using ::testing::HasSubstr;
using testing::may_be_another_user;
using ::testing::Not;
using testing::OtherUser;
using namespace std::chrono_literals;

constexpr const char* kToken = "a secret of the run";
constexpr const char* kNoProof = "it did not prove the run token";

std::string unique_name() {
  static int count = 0;
  return "tessera-handshake-test-" + std::to_string(getpid()) + "-" + std::to_string(++count);
}

// A connection that a test plays itself.
class Wire {
 public:
  explicit Wire(const std::string& address) : Wire(try_connect(StoreAddress::parse(address))) {}
  explicit Wire(Socket socket) : socket_(std::move(socket)) {
    const timeval patience{20, 0};
    setsockopt(socket_.fd(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  }
  void say(const std::string& bytes) {
    EXPECT_EQ(send(socket_.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL), ssize_t(bytes.size()));
  }
  // Nothing where the other side hangs up.
  std::optional<std::string> hear() {
    for (;;) {
      if (auto body = take_body(in_, 1 << 20)) return body;
      char bytes[4096];
      const ssize_t count = recv(socket_.fd(), bytes, sizeof bytes, 0);
      if (count <= 0) {
        EXPECT_EQ(count, 0) << "it neither answers nor hangs up";
        return std::nullopt;
      }
      in_.append(bytes, static_cast<std::size_t>(count));
    }
  }
  WireMessage hear_plain() { return WireMessage::parse(hear().value_or("")); }

 private:
  Socket socket_;
  std::string in_;
};

StoreHandshake handshake_with(const StoreServer& server, i64 rank, const std::string& purpose) {
  return {.place = StoreAddress::parse(server.address()).place(),
          .rank = rank,
          .world = 4,
          .purpose = purpose,
          .rank_number = std::string(StoreHandshake::kNumberBytes, 'n'),
          .store_number = {}};
}

std::string hello(const StoreHandshake& of) {
  return WireMessage{.code = static_cast<u8>(StoreCall::hello),
                     .number = of.rank,
                     .world = of.world,
                     .key = of.rank_number,
                     .value = of.purpose}
      .frame();
}

std::string proof(const std::string& bytes) {
  return WireMessage{.code = static_cast<u8>(StoreCall::proof), .key = bytes}.frame();
}

// A rank's side up to the proof, which `prove` makes. What the server says to it.
std::string answer_to(
    const StoreServer& server,
    StoreHandshake of,
    const std::function<std::string(const StoreHandshake&, const WireMessage&)>& prove) {
  Wire wire(server.address());
  wire.say(hello(of));
  const WireMessage challenge = wire.hear_plain();
  of.store_number = challenge.key;
  EXPECT_EQ(challenge.value, of.proof_of_store(kToken));
  wire.say(proof(prove(of, challenge)));
  const auto body = wire.hear();
  if (!body) return "hung up";
  try {
    StoreSession session(of, kToken, StoreSession::Side::rank);
    std::string frame = frame_of(*body);
    WireMessage welcome;
    if (session.take_frame(frame, 1 << 20, welcome)) return welcome.code == 1 ? "welcome" : "no";
  } catch (const Error&) {  // not sealed
  }
  return WireMessage::parse(*body).key;
}

class Handshake : public ::testing::TestWithParam<const char*> {
 protected:
  std::string listen_address() const {
    return std::string(GetParam()) == "unix" ? "unix:@" + unique_name() : "tcp::0";
  }
};

TEST_P(Handshake, ProvesBothSides) {
  const StoreServer server(listen_address(), kToken, 4);
  EXPECT_EQ(answer_to(server,
                      handshake_with(server, 1, "primary"),
                      [](const StoreHandshake& own, const WireMessage&) {
                        return own.proof_of_rank(kToken);
                      }),
            "welcome");
}

TEST_P(Handshake, BindsRankWorldPurposeAndPlace) {
  const StoreServer server(listen_address(), kToken, 4);
  using Change = void (*)(StoreHandshake&);
  const Change changes[] = {[](StoreHandshake& h) { h.rank = 2; },
                            [](StoreHandshake& h) { h.world = 5; },
                            [](StoreHandshake& h) { h.purpose.clear(); },
                            [](StoreHandshake& h) { h.place += "1"; },
                            [](StoreHandshake& h) { h.rank_number[0] = 'm'; },
                            [](StoreHandshake& h) { h.store_number[0] ^= 1; }};
  for (const Change change : changes) {
    EXPECT_THAT(answer_to(server,
                          handshake_with(server, 1, "primary"),
                          [&](StoreHandshake other, const WireMessage&) {
                            change(other);
                            return other.proof_of_rank(kToken);
                          }),
                HasSubstr(kNoProof));
  }
  EXPECT_EQ(server.first_death(), "");
}

TEST_P(Handshake, RefusesWhatItSaidItself) {
  const StoreServer server(listen_address(), kToken, 4);
  EXPECT_THAT(answer_to(server,
                        handshake_with(server, 1, "primary"),
                        [](const StoreHandshake&, const WireMessage& said) { return said.value; }),
              HasSubstr(kNoProof));
  // And a listener that sends a rank's own words back to it.
  StoreAddress address = StoreAddress::parse(listen_address());
  const Socket listener = listen_at(address);
  std::thread mirror([&] {
    pollfd wait{listener.fd(), POLLIN, 0};
    poll(&wait, 1, 30'000);
    Wire wire(Socket(accept(listener.fd(), nullptr, nullptr)));
    const WireMessage said = wire.hear_plain();
    wire.say(WireMessage{.code = 1, .key = said.key, .value = said.key}.frame());
    EXPECT_EQ(wire.hear(), std::nullopt) << "it says no more";
  });
  EXPECT_THAT(error_of([&] { SocketStore(address.text(), kToken, 1, 4, 30s); }),
              HasSubstr("have not the same run token"));
  mirror.join();
}

TEST_P(Handshake, RefusesARecordedOne) {
  const StoreServer server(listen_address(), kToken, 4);
  std::string recorded_proof, recorded_call;
  StoreHandshake of = handshake_with(server, 1, "");
  {
    Wire wire(server.address());
    wire.say(hello(of));
    of.store_number = wire.hear_plain().key;
    recorded_proof = proof(of.proof_of_rank(kToken));
    wire.say(recorded_proof);
    StoreSession session(of, kToken, StoreSession::Side::rank);
    ASSERT_TRUE(wire.hear());
    WireMessage add{.code = static_cast<u8>(StoreCall::add), .number = 1};
    add.key = "count";
    recorded_call = session.frame(add);
    wire.say(recorded_call);
    ASSERT_TRUE(wire.hear());
    wire.say(recorded_call);  // once more on its own connection
    EXPECT_EQ(wire.hear().has_value(), true);
    EXPECT_EQ(wire.hear(), std::nullopt) << "a repeated message ends the connection";
  }
  Wire again(server.address());
  again.say(hello(of) + recorded_proof + recorded_call);
  EXPECT_NE(again.hear_plain().key, of.store_number);
  EXPECT_THAT(again.hear_plain().key, HasSubstr(kNoProof));
  EXPECT_EQ(again.hear(), std::nullopt);
  SocketStore store(server.address(), kToken, 0, 4, 30s);
  EXPECT_EQ(store.add("count", 0), 1) << "the call counted once";
}

TEST_P(Handshake, TheTokenAndWhatIsStoredAreNeverSent) {
  StoreAddress address = StoreAddress::parse(listen_address());
  const Socket listener = listen_at(address);
  std::string heard;
  std::thread stranger([&] {
    pollfd wait{listener.fd(), POLLIN, 0};
    poll(&wait, 1, 30'000);
    Wire wire(Socket(accept(listener.fd(), nullptr, nullptr)));
    const WireMessage said = wire.hear_plain();
    heard = said.body();
    wire.say(
        WireMessage{.code = 1, .key = std::string(32, 'x'), .value = std::string(32, 'y')}.frame());
    heard += wire.hear().value_or("");
  });
  EXPECT_THAT(error_of([&] { SocketStore(address.text(), kToken, 1, 4, 30s); }),
              HasSubstr("have not the same run token"));
  stranger.join();
  EXPECT_EQ(heard.size(), WireMessage{}.body().size() + 32 + std::string("primary").size());
  EXPECT_THAT(heard, Not(HasSubstr(kToken)));
}

// Each waits for more until its time is over; ranks come and go meanwhile.
TEST_P(Handshake, WhoStopsHalfWayIsDroppedAndHoldsNobodyUp) {
  const StoreServer server(listen_address(), kToken, 4);
  Wire silent(server.address()), half(server.address()), without_proof(server.address());
  const std::string begin = hello(handshake_with(server, 1, "primary"));
  half.say(begin.substr(0, 20));
  without_proof.say(begin);
  EXPECT_TRUE(without_proof.hear());
  SocketStore a(server.address(), kToken, 0, 4, 30s), b(server.address(), kToken, 1, 4, 30s);
  a.set("key", "value");
  EXPECT_EQ(b.get("key", 30s), "value");
  for (Wire* each : {&silent, &half, &without_proof}) EXPECT_EQ(each->hear(), std::nullopt);
  EXPECT_EQ(b.get("key", 30s), "value");
  EXPECT_EQ(server.first_death(), "");
}

INSTANTIATE_TEST_SUITE_P(Sockets,
                         Handshake,
                         ::testing::Values("unix", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

// Somebody on the way, who passes on what both say, byte for byte or not.
class Relay {
 public:
  // `at` and `to`: one port of two addresses of this host.
  Relay(const std::string& at, const std::string& to, bool changes) {
    StoreAddress place = StoreAddress::parse(at);
    listener_ = listen_at(place);
    thread_ = std::thread([this, to, changes] { run(to, changes); });
  }
  ~Relay() {
    stop_ = true;
    thread_.join();
  }

 private:
  void run(const std::string& to, bool changes) {
    pollfd wait{listener_.fd(), POLLIN, 0};
    while (!stop_ && poll(&wait, 1, 20) <= 0) {
    }
    const Socket client(accept(listener_.fd(), nullptr, nullptr));
    const Socket server = try_connect(StoreAddress::parse(to));
    i64 passed = 0;
    while (!stop_) {
      pollfd both[2] = {{client.fd(), POLLIN, 0}, {server.fd(), POLLIN, 0}};
      if (poll(both, 2, 20) <= 0) continue;
      for (const auto& [from, into] : {std::pair{0, 1}, std::pair{1, 0}}) {
        if (both[from].revents == 0) continue;
        char bytes[4096];
        const ssize_t count = recv(both[from].fd, bytes, sizeof bytes, 0);
        if (count <= 0) return;
        // The first message that is sealed is the store's welcome.
        if (changes && from == 1 && ++passed == 2) bytes[count - 1] ^= 1;
        send(both[into].fd, bytes, static_cast<std::size_t>(count), MSG_NOSIGNAL);
      }
    }
  }

  Socket listener_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

TEST(HandshakeOverTcp, IsForOnePlace) {
  const StoreServer server("tcp:127.0.0.1:0", kToken, 4);
  StoreAddress elsewhere = StoreAddress::parse("tcp:127.0.0.1:0");
  { const Socket finds_a_port = listen_at(elsewhere); }
  const Relay relay(elsewhere.text(), server.address(), false);
  EXPECT_THAT(error_of([&] { SocketStore(elsewhere.text(), kToken, 1, 4, 5s); }),
              HasSubstr("have not the same run token"));
}

TEST(HandshakeOverTcp, AChangeOnTheWayIsFound) {
  const StoreServer server("tcp:127.0.0.1:0", kToken, 4);
  const std::string port = StoreAddress::parse(server.address()).port;
  const Relay relay("tcp:127.0.0.2:" + port, server.address(), true);
  EXPECT_THAT(error_of([&] { SocketStore("tcp:127.0.0.2:" + port, kToken, 1, 4, 5s); }),
              HasSubstr("a message was changed on its way"));
}

TEST(HandshakeOfUsers, AListenerOfAnotherUserGetsNothing) {
  if (!may_be_another_user()) GTEST_SKIP() << "only root can start a process of another user";
  const std::string name = unique_name();
  OtherUser stranger = OtherUser::listens(name);
  EXPECT_THAT(error_of([&] { SocketStore("unix:@" + name, kToken, 1, 2, 30s); }),
              HasSubstr("belongs to user 65534 and not to user 0"));
  EXPECT_EQ(stranger.end(), "1 connections, 0 bytes, 0 descriptors");
}

TEST(HandshakeOfUsers, OtherUsersNeitherStopNorStallAStore) {
  if (!may_be_another_user()) GTEST_SKIP() << "only root can start a process of another user";
  const std::string name = unique_name();
  const StoreServer server("unix:@" + name, kToken, 2);
  OtherUser stranger = OtherUser::floods(name);
  SocketStore a("unix:@" + name, kToken, 0, 2, 30s), b("unix:@" + name, kToken, 1, 2, 30s);
  for (int i = 0; i < 200; ++i) {
    a.set("key", std::to_string(i));
    ASSERT_EQ(b.get("key", 30s), std::to_string(i));
  }
  EXPECT_EQ(stranger.end(), "connected");
  EXPECT_EQ(server.first_death(), "");
}

}  // namespace store_handshake_test
}  // namespace tessera
