#include "kernel/comm/socket_store.hpp"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <exception>
#include <thread>

#include "kernel/comm/error_json.hpp"
#include "tessera/device/readable_until.hpp"
#include "tessera/device/stood_still.hpp"
#include "tessera/error.hpp"
#include "tessera/io/written.hpp"

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
      throw Error(fmt::format("store: {} does not answer", address), ErrorKind::peer_silent);
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

// `take` takes a whole message off a buffer.
template <class F>
WireMessage receive(int fd, Clock::time_point& deadline, const std::string& address, F&& take) {
  std::string buffer;
  WireMessage message;
  while (!take(buffer, message)) {
    wait_ready(fd, POLLIN, deadline, address);
    char bytes[65536];
    const ssize_t count = recv(fd, bytes, sizeof bytes, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      throw Error(fmt::format("store: {} closed the connection; the launcher or the rank that "
                              "serves it has ended",
                              address),
                  ErrorKind::peer_failed);
    }
    buffer.append(bytes, static_cast<std::size_t>(count));
  }
  return message;
}

WireMessage receive_sealed(int fd,
                           Clock::time_point& deadline,
                           const std::string& address,
                           StoreSession& session) {
  return receive(fd, deadline, address, [&](std::string& buffer, WireMessage& message) {
    return session.take_frame(buffer, kMemberBytes, message);
  });
}

// Call before the first byte is sent: anybody may listen at the name of a local socket.
void require_own_user(int fd, const std::string& address, i64 rank) {
  const auto user = peer_user(fd);
  require(user == geteuid(),
          "store: {} belongs to user {} and not to user {}, whose run this is, so rank {} has said "
          "nothing to it; set TESSERA_JOB to a text that nobody else uses, on all ranks",
          address,
          user ? std::to_string(*user) : "unknown",
          geteuid(),
          rank);
}

std::string value_of(WireMessage answer) {
  if (answer.code != 1) error_of_json(answer.key).raise();
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
    send_frame(primary_.socket.fd(), primary_.session.frame(goodbye), address_.text());
  } catch (const Error&) {
    // Nobody is there to hear it.
  }
}

SocketStore::Line SocketStore::connect(bool primary, std::chrono::milliseconds timeout) {
  constexpr auto kBetween = 20ms;
  Clock::time_point deadline = Clock::now() + timeout;
  while (true) {
    check_hung_up();
    if (Socket socket = try_connect(address_)) {
      try {
        return shake_hands(std::move(socket), primary);
      } catch (const Error& error) {
        // Closed without an answer: the server made room, as it does where strangers keep it busy.
        if (error.kind() != ErrorKind::peer_failed || Clock::now() >= deadline) throw;
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

SocketStore::Line SocketStore::shake_hands(Socket socket, bool primary) const {
  const std::string address = address_.text();
  if (address_.local) require_own_user(socket.fd(), address, rank_);
  StoreHandshake handshake{.place = address_.place(),
                           .rank = rank_,
                           .world = world_,
                           .purpose = primary ? "primary" : "",
                           .rank_number = random_bytes(StoreHandshake::kNumberBytes),
                           .store_number = {}};
  const WireMessage hello{.code = static_cast<u8>(StoreCall::hello),
                          .number = rank_,
                          .world = world_,
                          .key = handshake.rank_number,
                          .value = handshake.purpose};
  send_frame(socket.fd(), hello.frame(), address);
  Clock::time_point deadline = Clock::now() + kGrace;
  const WireMessage proof = receive(socket.fd(), deadline, address, [](auto& buffer, auto& found) {
    return take_frame(buffer, kStrangerBytes, found);
  });
  require(proof.code == 1,
          "store: {} refuses rank {}: {}",
          address,
          rank_,
          written_plain(proof.key, 400));  // it has proven nothing yet
  handshake.store_number = proof.key;
  require(same_secret(proof.value, handshake.proof_of_store(token_)),
          "store: rank {} and {} have not the same run token (TESSERA_RUN_TOKEN differs, or it is "
          "another run's store)",
          rank_,
          address);
  const WireMessage own{.code = static_cast<u8>(StoreCall::proof),
                        .key = handshake.proof_of_rank(token_)};
  send_frame(socket.fd(), own.frame(), address);
  Line line{std::move(socket), StoreSession(handshake, token_, StoreSession::Side::rank)};
  const WireMessage welcome = receive_sealed(line.socket.fd(), deadline, address, line.session);
  if (welcome.code != 1) {
    fail("store: {} refuses rank {}: {}", address, rank_, error_of_json(welcome.key).what());
  }
  return line;
}

void SocketStore::check_hung_up() {
  const std::lock_guard lock(mutex_);
  require(!hung_up_, "store: rank {} has hung up", rank_);
}

std::optional<SocketStore::Line> SocketStore::take_idle() {
  const std::lock_guard lock(mutex_);
  if (idle_.empty()) return std::nullopt;
  Line line = std::move(idle_.back());
  idle_.pop_back();
  return line;
}

std::string SocketStore::call(const WireMessage& request) {
  Clock::duration stood{};
  return value_of(exchange(request, 0ms, stood));
}

WireMessage SocketStore::exchange(const WireMessage& request,
                                  std::chrono::milliseconds timeout,
                                  Clock::duration& stood) {
  std::optional<Line> idle = take_idle();
  Line line = idle ? std::move(*idle) : connect(false, kGrace);
  const int fd = line.socket.fd();
  {
    const std::lock_guard lock(mutex_);
    require(!hung_up_, "store: rank {} has hung up", rank_);
    busy_.push_back(fd);
  }
  const auto done = [&] {
    const std::lock_guard lock(mutex_);
    std::erase(busy_, fd);
  };
  WireMessage answer;
  try {
    send_frame(fd, line.session.frame(request), address_.text());
    const Clock::time_point planned = Clock::now() + timeout + kGrace;
    Clock::time_point deadline = planned;
    answer = receive_sealed(fd, deadline, address_.text(), line.session);
    stood = deadline - planned;
  } catch (...) {
    done();
    throw;
  }
  done();
  {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(line));
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
    const bool in_vain =
        answer.code != 1 && error_of_json(answer.key).kind() == ErrorKind::peer_silent;
    if (!in_vain || stood == 0s) return value_of(std::move(answer));
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
    require(name_of(primary_.socket.fd(), address, &length) == 0 &&
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
