#include "kernel/comm/socket_store.hpp"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <exception>
#include <thread>

#include "tessera/error.hpp"
#include "tessera/peer_error.hpp"
#include "tessera/readable_until.hpp"
#include "tessera/stood_still.hpp"

namespace tessera {

namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto kGrace = 10s;  // beyond a call's own timeout, for the way there and back

// Waits as ready_until does. Time in which this process stood still itself, as in a suspended job,
// does not count.
void wait_ready(int fd, short events, Clock::time_point& deadline, const std::string& address) {
  constexpr auto kLook = 500ms;
  StoodStill stood_still;
  for (;;) {
    const bool ready = ready_until(fd, events, std::min(deadline, Clock::now() + kLook));
    deadline += stood_still.look(kLook);
    if (ready) return;
    if (Clock::now() >= deadline) {
      throw Error(fmt::format("store: {} does not answer", address), kPeerSilent);
    }
  }
}

void send_frame(int fd, const std::string& frame, const std::string& address) {
  for (std::size_t sent = 0; sent < frame.size();) {
    const ssize_t count =
        send(fd, frame.data() + sent, frame.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count >= 0) {
      sent += static_cast<std::size_t>(count);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      Clock::time_point deadline = Clock::now() + kGrace;
      wait_ready(fd, POLLOUT, deadline, address);
    } else if (errno != EINTR) {
      return;  // the server closed; its reason, if any, is there to be read
    }
  }
}

WireMessage receive_frame(int fd, Clock::time_point& deadline, const std::string& address) {
  std::string buffer;
  WireMessage message;
  while (!take_frame(buffer, kMemberBytes, message)) {
    wait_ready(fd, POLLIN, deadline, address);
    char bytes[65536];
    const ssize_t count = recv(fd, bytes, sizeof bytes, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      throw Error(fmt::format("store: {} closed the connection; the launcher or the rank that "
                              "serves it has ended",
                              address),
                  kPeerFailed);
    }
    buffer.append(bytes, static_cast<std::size_t>(count));
  }
  return message;
}

std::string value_of(WireMessage answer) {
  if (answer.code != 1) throw Error(answer.key, static_cast<int>(answer.number));
  return std::move(answer.value);
}

}  // namespace

std::string run_token(std::string given) {
  if (!given.empty()) return given;
  const char* token = std::getenv("TESSERA_RUN_TOKEN");
  if (token == nullptr || *token == '\0') {
    fail_config("store: no run token: set TESSERA_RUN_TOKEN to the same secret on all ranks");
  }
  return token;
}

SocketStore::SocketStore(const std::string& address,
                         std::string token,
                         i64 rank,
                         i64 world,
                         std::chrono::milliseconds timeout)
    : address_(StoreAddress::parse(address)),
      token_(run_token(std::move(token))),
      rank_(rank),
      world_(world),
      exceptions_(std::uncaught_exceptions()),
      primary_(connect(true, timeout)) {}

SocketStore::~SocketStore() {
  // A rank that an exception ends leaves like one that crashed: nobody should wait for its keys.
  if (std::uncaught_exceptions() > exceptions_) return;
  try {
    const WireMessage goodbye{.code = static_cast<u8>(StoreCall::goodbye)};
    send_frame(primary_.fd(), goodbye.frame(), address_.text());
  } catch (const Error&) {
    // Nobody is there to hear it.
  }
}

Socket SocketStore::connect(bool primary, std::chrono::milliseconds timeout) {
  constexpr auto kBetween = 20ms;
  Clock::time_point deadline = Clock::now() + timeout;
  WireMessage hello;
  hello.code = static_cast<u8>(StoreCall::hello);
  hello.number = rank_;
  hello.world = world_;
  hello.key = token_;
  hello.value = primary ? "primary" : "";
  while (true) {
    check_hung_up();
    if (Socket socket = try_connect(address_)) {
      try {
        send_frame(socket.fd(), hello.frame(), address_.text());
        Clock::time_point answered_by = Clock::now() + kGrace;
        const WireMessage answer = receive_frame(socket.fd(), answered_by, address_.text());
        require(
            answer.code == 1, "store: {} refuses rank {}: {}", address_.text(), rank_, answer.key);
        return socket;
      } catch (const Error& error) {
        // Closed before an answer: it makes room for others where strangers keep it busy.
        if (error.exit_code() != kPeerFailed || Clock::now() >= deadline) throw;
      }
    } else {
      require(Clock::now() < deadline,
              "store: rank {} found nobody at {} within {:.1f} s",
              rank_,
              address_.text(),
              std::chrono::duration<double>(timeout).count());
    }
    StoodStill stood_still;  // an attempt may take seconds by itself
    std::this_thread::sleep_for(kBetween);
    deadline += stood_still.look(kBetween);
  }
}

void SocketStore::check_hung_up() {
  const std::lock_guard lock(mutex_);
  require(!hung_up_, "store: rank {} has hung up", rank_);
}

Socket SocketStore::take_idle() {
  const std::lock_guard lock(mutex_);
  if (idle_.empty()) return {};
  Socket socket = std::move(idle_.back());
  idle_.pop_back();
  return socket;
}

std::string SocketStore::call(const WireMessage& request) {
  Clock::duration stood{};
  return value_of(exchange(request, 0ms, stood));
}

WireMessage SocketStore::exchange(const WireMessage& request,
                                  std::chrono::milliseconds timeout,
                                  Clock::duration& stood) {
  Socket socket = take_idle();
  if (!socket) socket = connect(false, kGrace);
  {
    const std::lock_guard lock(mutex_);
    require(!hung_up_, "store: rank {} has hung up", rank_);
    busy_.push_back(socket.fd());
  }
  const auto done = [&] {
    const std::lock_guard lock(mutex_);
    std::erase(busy_, socket.fd());
  };
  WireMessage answer;
  try {
    send_frame(socket.fd(), request.frame(), address_.text());
    const Clock::time_point planned = Clock::now() + timeout + kGrace;
    Clock::time_point deadline = planned;
    answer = receive_frame(socket.fd(), deadline, address_.text());
    stood = deadline - planned;
  } catch (...) {
    done();
    throw;
  }
  done();
  {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(socket));
  }
  return answer;
}

void SocketStore::hang_up() noexcept {
  const std::lock_guard lock(mutex_);
  hung_up_ = true;
  for (const int fd : busy_) shutdown(fd, SHUT_RDWR);
}

void SocketStore::set(std::string_view key, std::string_view value) {
  WireMessage request{.code = static_cast<u8>(StoreCall::set)};
  request.key = key;
  request.value = value;
  call(request);
}

std::string SocketStore::get(std::string_view key, std::chrono::milliseconds timeout) {
  WireMessage request{.code = static_cast<u8>(StoreCall::get)};
  request.key = key;
  for (;;) {
    request.number = timeout.count();
    Clock::duration stood{};
    WireMessage answer = exchange(request, timeout, stood);
    // The server does not know that this process stood still while it waited.
    if (answer.code == 1 || answer.number != kPeerSilent || stood == 0s) {
      return value_of(std::move(answer));
    }
    timeout = std::min(timeout, std::chrono::ceil<std::chrono::milliseconds>(stood));
  }
}

i64 SocketStore::add(std::string_view key, i64 amount) {
  WireMessage request{.code = static_cast<u8>(StoreCall::add)};
  request.key = key;
  request.number = amount;
  return std::stoll(call(request));
}

StoreRoute SocketStore::route() const {
  if (address_.local) return {};
  const auto text_of = [&](auto name_of) {
    sockaddr_storage name{};
    socklen_t length = sizeof name;
    auto* address = reinterpret_cast<sockaddr*>(&name);
    char host[NI_MAXHOST];
    require(name_of(primary_.fd(), address, &length) == 0 &&
                getnameinfo(address, length, host, sizeof host, nullptr, 0, NI_NUMERICHOST) == 0,
            "store: the addresses of the connection to {} are unknown",
            address_.text());
    return std::string(host);
  };
  return {text_of(getsockname), text_of(getpeername)};
}

std::string SocketStore::first_death() {
  return call(WireMessage{.code = static_cast<u8>(StoreCall::death)});
}

}  // namespace tessera
