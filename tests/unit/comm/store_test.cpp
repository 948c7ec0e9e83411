#include "kernel/comm/store.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>
#include <vector>

#include "kernel/comm/socket_store.hpp"
#include "tessera/error.hpp"
#include "tests/common/environment.hpp"
#include "tests/common/error_of.hpp"

namespace tessera {
namespace store_test {

using ::testing::AnyOf;
using testing::EnvironmentVariable;
using testing::error_of;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

std::string unique_address() {
  static int count = 0;
  return "unix:@tessera-store-test-" + std::to_string(getpid()) + "-" + std::to_string(++count);
}

void check_calls(Store& a, Store& b) {
  a.set("key", "first");
  EXPECT_EQ(b.get("key", 30s), "first");
  b.set("key", std::string("se\0ond", 6));
  EXPECT_EQ(a.get("key", 30s), std::string("se\0ond", 6));
  EXPECT_EQ(a.add("count", 5), 5);
  EXPECT_EQ(b.add("count", -2), 3);
  EXPECT_EQ(a.get("count", 30s), "3");
  const std::string large(3 << 20, 'x');
  a.set("large", large);
  EXPECT_EQ(b.get("large", 30s), large);
  std::thread late([&] {
    std::this_thread::sleep_for(50ms);
    b.set("late", "here");
  });
  EXPECT_EQ(a.get("late", 30s), "here");
  late.join();
  EXPECT_THAT(error_of([&] { a.get("nowhere", 100ms); }), HasSubstr("\"nowhere\" within 0.1 s"));
}

TEST(InProcessStore, SetsGetsAddsWaits) {
  InProcessStore store;
  check_calls(store, store);
  EXPECT_EQ(store.object<int>("shared"), store.object<int>("shared"));
}

class SocketStores : public ::testing::TestWithParam<const char*> {
 protected:
  std::string listen_address() const {
    return std::string(GetParam()) == "unix" ? unique_address() : "tcp::0";
  }
};

TEST_P(SocketStores, SetGetAddWait) {
  const StoreServer server(listen_address(), "secret", 2);
  SocketStore a(server.address(), "secret", 0, 2, 30s), b(server.address(), "secret", 1, 2, 30s);
  check_calls(a, b);
  EXPECT_EQ(server.first_death(), "");
}

TEST_P(SocketStores, RefuseStrangersAndGoOn) {
  const StoreServer server(listen_address(), "secret", 2);
  SocketStore a(server.address(), "secret", 0, 2, 30s);
  const auto join = [&](const char* token, i64 rank, i64 world) {
    return error_of([&] { SocketStore(server.address(), token, rank, world, 30s); });
  };
  EXPECT_THAT(join("secreT", 1, 2), HasSubstr("have not the same run token"));
  EXPECT_THAT(join("secret and more", 1, 2), HasSubstr("have not the same run token"));
  EXPECT_THAT(join("s", 1, 2), HasSubstr("have not the same run token"));
  EXPECT_THAT(join("secret", 1, 3), HasSubstr("this run has 2 ranks, not 3"));
  EXPECT_THAT(join("secret", 2, 2), HasSubstr("no rank 2"));
  EXPECT_THAT(join("secret", 0, 2), HasSubstr("rank 0 is here already"));
  EXPECT_EQ(join("secret", 1, 2), "");
  a.set("still", "served");
  EXPECT_EQ(a.get("still", 30s), "served");
  EXPECT_EQ(server.first_death(), "");
}

// They prove nothing and say nothing, from the address that the ranks have too.
TEST_P(SocketStores, IdleConnectionsKeepNobodyOut) {
  ::testing::internal::CaptureStderr();
  {
    const StoreServer server(listen_address(), "secret", 2);
    std::vector<Socket> idle;
    const auto crowd = [&] {
      for (int i = 0; i < 400; ++i) {
        idle.push_back(try_connect(StoreAddress::parse(server.address())));
      }
    };
    crowd();
    SocketStore a(server.address(), "secret", 0, 2, 30s), b(server.address(), "secret", 1, 2, 30s);
    crowd();
    a.set("key", "value");
    EXPECT_EQ(b.get("key", 30s), "value");
    EXPECT_THAT(error_of([&] { SocketStore(server.address(), "guess", 1, 2, 30s); }),
                HasSubstr("have not the same run token"));
  }
  const std::string log = ::testing::internal::GetCapturedStderr();
  const char* from = std::string(GetParam()) == "unix" ? "this host" : "127.0.0.1";
  EXPECT_THAT(log, HasSubstr(std::string("store: refused a connection from ") + from));
  EXPECT_LE(std::count(log.begin(), log.end(), '\n'), 3) << "one line in 5 s\n" << log;
}

// What says nothing is closed after ten seconds, and before that where one address has too many.
TEST_P(SocketStores, BoundTheTimeAndTheNumberOfIdleConnections) {
  const StoreServer server(listen_address(), "secret", 2);
  SocketStore a(server.address(), "secret", 0, 2, 30s);
  std::vector<Socket> idle;
  const auto connect = [&](int count) {
    for (int i = 0; i < count; ++i) {
      idle.push_back(try_connect(StoreAddress::parse(server.address())));
    }
  };
  const auto open = [&] {
    return std::ranges::count_if(idle, [](const Socket& socket) {
      char byte = 0;
      return recv(socket.fd(), &byte, 1, MSG_DONTWAIT | MSG_PEEK) < 0 && errno == EAGAIN;
    });
  };
  const auto comes_to = [&](i64 most, std::chrono::seconds limit) {
    const auto end = std::chrono::steady_clock::now() + limit;
    while (open() > most && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(20ms);
    }
    return open();
  };
  const auto begin = std::chrono::steady_clock::now();
  connect(200);
  EXPECT_LE(comes_to(68, 5s), 68) << "64 of an address, and two of each rank";
  EXPECT_GT(open(), 0);
  EXPECT_EQ(comes_to(0, 60s), 0);
  EXPECT_GT(std::chrono::steady_clock::now() - begin, 5s) << "a slow rank has its time";
  a.set("still", "served");
  EXPECT_EQ(a.get("still", 30s), "served");
}

// Held up, the call would not come back before the test's time is over.
TEST_P(SocketStores, WaitsDoNotHoldUpOtherCalls) {
  const StoreServer server(listen_address(), "secret", 1);
  SocketStore store(server.address(), "secret", 0, 1, 30s);
  std::string got;
  std::thread waiter([&] { got = store.get("later", 1h); });
  std::this_thread::sleep_for(50ms);
  store.set("later", "value");
  waiter.join();
  EXPECT_EQ(got, "value");
}

TEST_P(SocketStores, HangingUpEndsCallsAndTheServerGoesOn) {
  const StoreServer server(listen_address(), "secret", 2);
  SocketStore store(server.address(), "secret", 0, 2, 30s);
  SocketStore other(server.address(), "secret", 1, 2, 30s);
  std::string waiting;
  std::thread waits([&] { waiting = error_of([&] { store.get("never", 1h); }); });
  std::this_thread::sleep_for(50ms);
  store.hang_up();
  waits.join();
  // The latter where it has not begun to wait.
  EXPECT_THAT(waiting, AnyOf(HasSubstr("closed the connection"), HasSubstr("has hung up")));
  EXPECT_THAT(error_of([&] { store.set("late", "1"); }), HasSubstr("rank 0 has hung up"));
  EXPECT_NO_THROW(other.set("late", "2"));
  EXPECT_EQ(server.first_death(), "");
}

TEST_P(SocketStores, ADeathEndsWaits) {
  const StoreServer server(listen_address(), "secret", 2);
  SocketStore a(server.address(), "secret", 0, 2, 30s);
  a.set("known", "value");
  std::thread dies([&] {
    // A client whose connection closes without goodbye, as a killed process's does.
    try {
      const SocketStore b(server.address(), "secret", 1, 2, 30s);
      std::this_thread::sleep_for(100ms);
      fail("killed");
    } catch (const Error&) {
    }
  });
  EXPECT_THAT(error_of([&] { a.get("never", 1h); }), HasSubstr("\"never\": rank 1 died"));
  dies.join();
  EXPECT_EQ(a.get("known", 30s), "value");
  EXPECT_THAT(server.first_death(), HasSubstr("rank 1 died"));
  EXPECT_THAT(a.first_death(), HasSubstr("rank 1 died"));
}

TEST_P(SocketStores, ARankEndedByAnExceptionIsDeadOneThatReturnsIsNot) {
  const StoreServer server(listen_address(), "secret", 2);
  SocketStore a(server.address(), "secret", 0, 2, 30s);
  { SocketStore(server.address(), "secret", 1, 2, 30s); }
  EXPECT_THAT(error_of([&] { a.get("never", 50ms); }), HasSubstr("nobody has set"));
  EXPECT_THAT(error_of([&] {
                const SocketStore b(server.address(), "secret", 1, 2, 30s);
                fail("out of luck");
              }),
              HasSubstr("out of luck"));
  EXPECT_THAT(error_of([&] { a.get("never", 1h); }), HasSubstr("rank 1 died"));
}

// One that comes after the failure learns of it from the store, which waits for that.
TEST_P(SocketStores, ARankThatServesAndFailsLeavesWhenTheOthersHaveHungUp) {
  StoreServer server(listen_address(), "secret", 3);
  SocketStore own(server.address(), "secret", 0, 3, 30s);
  own.set("culprit", "rank 5");
  std::vector<std::string> told(2);
  const auto rank = [&](i64 number, std::chrono::milliseconds late) {
    std::this_thread::sleep_for(late);
    SocketStore store(server.address(), "secret", number, 3, 30s);
    told[static_cast<std::size_t>(number - 1)] = error_of([&] { store.get("never", 1h); });
    EXPECT_EQ(store.get("culprit", 30s), "rank 5");
  };
  std::thread waits([&] { rank(1, 0ms); }), late([&] { rank(2, 300ms); });
  server.outlast_others(0, 1h);
  waits.join();
  late.join();
  for (const std::string& text : told) {
    EXPECT_THAT(text, HasSubstr("\"never\": rank 0 died: it failed, and says itself why"));
  }
}

// Started again by itself, it belongs to the run that begins next.
TEST_P(SocketStores, ARankThatHasLeftDoesNotJoinTheStoreThatEnds) {
  StoreServer server(listen_address(), "secret", 3);
  const SocketStore own(server.address(), "secret", 0, 3, 30s);
  { SocketStore(server.address(), "secret", 1, 3, 30s); }
  std::thread ends([&] { server.outlast_others(0, 500ms); });
  while (server.first_death().empty()) std::this_thread::sleep_for(1ms);
  EXPECT_THAT(error_of([&] { SocketStore(server.address(), "secret", 1, 3, 100ms); }),
              HasSubstr("closed the connection"));
  ends.join();
}

TEST_P(SocketStores, ARankThatServesAndFailsDoesNotWaitForAFrozenOne) {
  StoreServer server(listen_address(), "secret", 3);
  const SocketStore own(server.address(), "secret", 0, 3, 30s);
  const SocketStore frozen(server.address(), "secret", 1, 3, 30s);  // rank 2 never comes
  server.outlast_others(0, 100ms);
  EXPECT_THAT(server.first_death(), HasSubstr("rank 0 died"));
}

TEST_P(SocketStores, GarbageIsDropped) {
  const StoreServer server(listen_address(), "secret", 1);
  const StoreAddress address = StoreAddress::parse(server.address());
  for (const std::string& garbage : {std::string("GET / HTTP/1.1\r\n\r\n"),
                                     std::string(100, '\xff'),
                                     std::string(100, '\0'),
                                     WireMessage{1, 0, 0, "key", "value"}.frame()}) {
    const Socket socket = try_connect(address);
    ASSERT_GT(send(socket.fd(), garbage.data(), garbage.size(), 0), 0);
    char bytes[4096];
    while (recv(socket.fd(), bytes, sizeof bytes, 0) > 0) {
    }
  }
  SocketStore store(server.address(), "secret", 0, 1, 30s);
  EXPECT_THAT(error_of([&] { store.get("key", 0ms); }), HasSubstr("nobody has set"));
}

INSTANTIATE_TEST_SUITE_P(Sockets,
                         SocketStores,
                         ::testing::Values("unix", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

// UBSan opens a pipe to look at memory.
#if !defined(__SANITIZE_ADDRESS__)
TEST(SocketStore, OutOfDescriptorsIsToldAndNotWaitedFor) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = dup(STDERR_FILENO);
  close(next);
  const rlimit full{static_cast<rlim_t>(next), before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &full), 0);
  const std::string connecting =
      error_of([] { SocketStore("unix:@tessera-nobody", "secret", 1, 2, 60s); });
  const std::string serving = error_of([] { StoreServer("unix:@tessera-nobody", "secret", 2); });
  setrlimit(RLIMIT_NOFILE, &before);
  for (const std::string& error : {connecting, serving}) {
    EXPECT_EQ(error, "store: cannot open a socket: Too many open files");
  }
}
#endif

TEST(SocketStore, WaitsForTheServerAndSaysWhenItIsNotThere) {
  const std::string address = unique_address();
  EXPECT_THAT(error_of([&] { SocketStore(address, "secret", 3, 4, 100ms); }),
              HasSubstr("rank 3 found nobody at " + address + " within 0.1 s"));
  std::unique_ptr<StoreServer> server;
  std::thread starts([&] {
    std::this_thread::sleep_for(100ms);
    server = std::make_unique<StoreServer>(address, "secret", 1);
  });
  EXPECT_NO_THROW(SocketStore(address, "secret", 0, 1, 30s));
  starts.join();
}

TEST(SocketStore, SaysThatTheServerHasEnded) {
  auto server = std::make_unique<StoreServer>(unique_address(), "secret", 1);
  SocketStore store(server->address(), "secret", 0, 1, 30s);
  store.set("a", "b");
  server.reset();
  EXPECT_THAT(error_of([&] { store.get("a", 30s); }), HasSubstr("closed the connection"));
}

TEST(SocketStore, TakesTheTokenFromTheEnvironment) {
  const EnvironmentVariable none("TESSERA_RUN_TOKEN", std::nullopt);
  EXPECT_THAT(error_of([] { StoreServer(unique_address(), "", 1); }),
              HasSubstr("set TESSERA_RUN_TOKEN"));
  const auto server = [] {
    const EnvironmentVariable token("TESSERA_RUN_TOKEN", "from outside");
    return StoreServer(unique_address(), "", 1);
  }();
  EXPECT_NO_THROW(SocketStore(server.address(), "from outside", 0, 1, 30s));
}

TEST(StoreAddress, RefusesWhatItDoesNotKnow) {
  for (const char* text : {"", "unix:@", "unix:/path", "tcp:host", "tcp:host:http", "host:80"}) {
    EXPECT_THAT(error_of([&] { StoreAddress::parse(text); }), HasSubstr("neither")) << text;
  }
  EXPECT_EQ(StoreAddress::parse("tcp:10.0.0.1:2950").text(), "tcp:10.0.0.1:2950");
}

TEST(StoreServer, BindsToLoopbackUnlessTold) {
  const StoreServer server("tcp::0", "secret", 1);
  EXPECT_THAT(server.address(), ::testing::StartsWith("tcp:127.0.0.1:"));
}

TEST(StoreServer, SaysWhyItCannotListen) {
  const StoreServer first(unique_address(), "secret", 1);
  EXPECT_THAT(error_of([&] { StoreServer(first.address(), "secret", 1); }),
              HasSubstr("cannot listen at " + first.address()));
}

}  // namespace store_test
}  // namespace tessera
