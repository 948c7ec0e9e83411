// One thread serves all connections: it polls, answers what it can, and keeps the calls that wait.
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <list>
#include <set>
#include <thread>

#include "kernel/comm/socket_store.hpp"
#include "kernel/comm/store.hpp"
#include "tessera/error.hpp"

namespace tessera {

namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto kHelloTime = 10s;
constexpr std::size_t kMostStrangers = 256;

struct Connection {
  Socket socket;
  std::string in, out;
  Clock::time_point since = Clock::now();
  i64 rank = -1;  // none before the hello
  bool primary = false, closing = false, gone = false;
  bool waiting = false;  // for the key of `call`
  WireMessage call;
  Clock::time_point deadline;
};

// Takes the same time wherever the texts differ.
bool same_secret(const std::string& a, const std::string& b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned>(a[i] ^ b[b.empty() ? 0 : i % b.size()]);
  }
  return difference == 0;
}

bool same_user(int fd) {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) return false;
  return credentials.uid == geteuid();
}

}  // namespace

struct StoreServer::Impl {
  Impl(const std::string& at, std::string secret, i64 size)
      : address(StoreAddress::parse(at)),
        token(run_token(std::move(secret))),
        world(size),
        listener(listen_at(address)),
        stop(eventfd(0, EFD_CLOEXEC)),
        text(address.text()) {}

  void run();
  void poll_once();
  void accept_all();
  void receive(Connection& c);
  void flush(Connection& c);
  void serve(Connection& c, WireMessage message);
  void welcome(Connection& c, const WireMessage& hello);
  std::string refusal(const Connection& c, const WireMessage& hello) const;
  void answer_waiting(Connection& c);
  void drop(Connection& c);
  static void answer(Connection& c, bool success, std::string payload);

  StoreAddress address;
  std::string token;
  i64 world;
  Socket listener, stop;
  std::string text;
  StoreTable table;
  std::list<Connection> connections;
  std::set<i64> present;
  bool stopping = false;
  std::thread thread;
};

StoreServer::StoreServer(const std::string& address, std::string token, i64 world)
    : impl_(std::make_unique<Impl>(address, std::move(token), world)) {
  impl_->thread = std::thread([impl = impl_.get()] { impl->run(); });
}

StoreServer::~StoreServer() {
  const u64 one = 1;
  while (write(impl_->stop.fd(), &one, sizeof one) < 0 && errno == EINTR) {
  }
  impl_->thread.join();
}

const std::string& StoreServer::address() const { return impl_->text; }
std::string StoreServer::first_death() const { return impl_->table.first_death(); }

void StoreServer::Impl::run() {
  while (!stopping) poll_once();
}

void StoreServer::Impl::poll_once() {
  std::vector<pollfd> polled = {{stop.fd(), POLLIN, 0}, {listener.fd(), POLLIN, 0}};
  Clock::time_point next = Clock::now() + 1h;
  for (const Connection& c : connections) {
    const short events = c.out.empty() ? POLLIN : POLLIN | POLLOUT;
    polled.push_back({c.socket.fd(), events, 0});
    if (c.gone) next = Clock::now();
    if (c.rank < 0) next = std::min(next, c.since + kHelloTime);
    if (c.waiting) next = std::min(next, c.deadline);
  }
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now());
  if (poll(polled.data(), polled.size(), static_cast<int>(std::max<i64>(left.count(), 0))) < 0) {
    return;
  }
  stopping = polled[0].revents != 0;
  std::size_t i = 2;
  for (Connection& c : connections) {
    const short events = polled[i++].revents;
    if ((events & (POLLIN | POLLHUP | POLLERR)) != 0) receive(c);
    if (c.rank < 0 && Clock::now() > c.since + kHelloTime) c.gone = true;
  }
  if (polled[1].revents != 0) accept_all();
  // Before the answers: a death is one. Who goes below is dropped by the next round, at once.
  for (Connection& c : connections) {
    if (c.gone) drop(c);
  }
  connections.remove_if([](const Connection& c) { return c.gone; });
  for (Connection& c : connections) {
    if (c.waiting) answer_waiting(c);
    flush(c);
    if (c.closing && c.out.empty()) c.gone = true;
  }
}

void StoreServer::Impl::accept_all() {
  while (true) {
    const int fd = accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return;
    Socket socket(fd);
    const auto strangers = static_cast<std::size_t>(std::count_if(
        connections.begin(), connections.end(), [](const auto& c) { return c.rank < 0; }));
    if (strangers < kMostStrangers) connections.emplace_back().socket = std::move(socket);
  }
}

void StoreServer::Impl::receive(Connection& c) {
  char bytes[65536];
  while (!c.gone && !c.closing) {
    const ssize_t count = recv(c.socket.fd(), bytes, sizeof bytes, 0);
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      c.gone = true;
      return;
    }
    c.in.append(bytes, static_cast<std::size_t>(count));
    try {
      WireMessage message;
      while (!c.closing && take_frame(c.in, c.rank < 0 ? kStrangerBytes : kMemberBytes, message)) {
        serve(c, std::move(message));
      }
    } catch (const std::exception& error) {
      answer(c, false, error.what());
      c.closing = true;
    }
  }
}

void StoreServer::Impl::flush(Connection& c) {
  while (!c.out.empty() && !c.gone) {
    const ssize_t count = send(c.socket.fd(), c.out.data(), c.out.size(), MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (count < 0) {
      c.gone = true;
      return;
    }
    c.out.erase(0, static_cast<std::size_t>(count));
  }
}

void StoreServer::Impl::answer(Connection& c, bool success, std::string payload) {
  WireMessage message;
  message.code = success ? 1 : 0;
  (success ? message.value : message.key) = std::move(payload);
  c.out += message.frame();
}

std::string StoreServer::Impl::refusal(const Connection& c, const WireMessage& hello) const {
  if (address.local && !same_user(c.socket.fd())) return "it belongs to another user's run";
  if (!same_secret(hello.key, token)) {
    return "wrong run token (TESSERA_RUN_TOKEN differs, or it is another run's store)";
  }
  if (hello.world != world) {
    return fmt::format("this run has {} ranks, not {}", world, hello.world);
  }
  if (hello.number < 0 || hello.number >= world) {
    return fmt::format("there is no rank {} among {}", hello.number, world);
  }
  if (!hello.value.empty() && present.contains(hello.number)) {
    return fmt::format("rank {} is here already", hello.number);
  }
  return {};
}

void StoreServer::Impl::welcome(Connection& c, const WireMessage& hello) {
  const std::string reason = refusal(c, hello);
  answer(c, reason.empty(), reason);
  c.closing = !reason.empty();
  if (c.closing) return;
  c.rank = hello.number;
  c.primary = !hello.value.empty();
  if (c.primary) present.insert(c.rank);
}

void StoreServer::Impl::serve(Connection& c, WireMessage message) {
  const auto call = static_cast<StoreCall>(message.code);
  if (c.rank < 0) {
    require(call == StoreCall::hello, "store: the first message must be a hello");
    return welcome(c, message);
  }
  switch (call) {
    case StoreCall::set:
      table.set(message.key, message.value);
      return answer(c, true, {});
    case StoreCall::add:
      return answer(c, true, std::to_string(table.add(message.key, message.number)));
    case StoreCall::death:
      return answer(c, true, table.first_death());
    case StoreCall::get:
      c.waiting = true;
      c.deadline = Clock::now() + std::chrono::milliseconds(message.number);
      c.call = std::move(message);
      return answer_waiting(c);
    case StoreCall::goodbye:
      if (c.primary) present.erase(c.rank);
      c.primary = false;
      c.closing = true;
      return;
    default:
      fail("store: unknown call {}", static_cast<int>(message.code));
  }
}

void StoreServer::Impl::answer_waiting(Connection& c) {
  if (std::optional<std::string> value = table.find(c.call.key)) {
    answer(c, true, std::move(*value));
  } else if (Clock::now() >= c.deadline || !table.first_death().empty()) {
    const std::chrono::milliseconds waited(c.call.number);
    answer(c, false, table.missing_text(c.call.key, waited));
  } else {
    return;
  }
  c.waiting = false;
}

void StoreServer::Impl::drop(Connection& c) {
  if (!c.primary) return;
  c.primary = false;
  present.erase(c.rank);
  table.report_death(c.rank, "its connection to the store closed");
}

}  // namespace tessera
