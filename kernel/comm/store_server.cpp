// One thread serves all connections: it polls, answers what it can, and keeps the calls that wait.
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "kernel/comm/error_json.hpp"
#include "kernel/comm/socket_store.hpp"
#include "kernel/comm/store.hpp"
#include "tessera/error.hpp"
#include "tessera/log.hpp"

namespace tessera {

namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

// A rank proves the token as soon as it is connected. Other connections are kept for a while only;
// where there are too many, the oldest one of the address with most of them goes. So idle ones
// never keep a rank out.
constexpr auto kProofTime = 10s;
constexpr std::size_t kMostStrangers = 256;
constexpr std::size_t kMostOfAddress = 64;  // and two of each rank
constexpr int kMostAccepted = 64;           // in a round: ranks are served between

constexpr const char* kNoProof =
    "it did not prove the run token (TESSERA_RUN_TOKEN differs, or it is no rank of this run)";

struct Connection {
  Socket socket;
  std::string from;  // its host, for people
  std::string in, out;
  Clock::time_point since = Clock::now();
  i64 rank = -1;                            // none before the proof
  std::optional<StoreHandshake> handshake;  // from the hello to the proof
  std::optional<StoreSession> session;      // from the proof on
  bool primary = false, closing = false, gone = false;
  bool waiting = false;  // for the key of `call`
  WireMessage call;
  Clock::time_point deadline;
};

std::string host_of(const sockaddr_storage& name, socklen_t length) {
  if (name.ss_family == AF_UNIX) return "this host";
  char host[NI_MAXHOST];
  const auto* address = reinterpret_cast<const sockaddr*>(&name);
  if (getnameinfo(address, length, host, sizeof host, nullptr, 0, NI_NUMERICHOST) != 0) return "?";
  return host;
}

// Tells who was refused and why: at most one line in some seconds, so that strangers who try again
// and again do not fill a log.
class Refusals {
 public:
  void add(const std::string& from, const std::string& why) {
    const auto now = Clock::now();
    if (now - told_ < kSilence) {
      ++untold_;
      return;
    }
    log_warning("store: refused a connection from {}: {}{}",
                from,
                why,
                untold_ == 0 ? "" : fmt::format(" (and {} others since the last line)", untold_));
    told_ = now;
    untold_ = 0;
  }

 private:
  static constexpr auto kSilence = 5s;
  Clock::time_point told_ = Clock::now() - kSilence;
  i64 untold_ = 0;
};

Socket open_event() {
  Socket event(eventfd(0, EFD_CLOEXEC));
  require(static_cast<bool>(event), "store: cannot open an event: {}", SystemError());
  return event;
}

}  // namespace

struct StoreServer::Impl {
  Impl(const std::string& at, std::string secret, i64 size)
      : address(StoreAddress::parse(at)),
        token(run_token(std::move(secret))),
        world(size),
        listener(listen_at(address)),
        wake(open_event()),
        text(address.text()) {}

  void run();
  void wake_up() const;
  void poll_once();
  void accept_all();
  void make_room(const std::string& from);
  void receive(Connection& c);
  void flush(Connection& c);
  void serve(Connection& c, WireMessage message);
  void challenge(Connection& c, const WireMessage& hello) const;
  void welcome(Connection& c, const WireMessage& proof);
  std::string refusal(const StoreHandshake& shown) const;
  void answer_waiting(Connection& c);
  void drop(Connection& c);
  void leave(Connection& c);
  static void answer(Connection& c, std::string value);
  static void refuse(Connection& c, const Error& error);

  StoreAddress address;
  std::string token;
  i64 world;
  Socket listener, wake;
  std::string text;
  StoreTable table;
  std::list<Connection> connections;
  std::set<i64> present;
  Refusals refusals;
  std::mutex mutex;
  std::condition_variable changed;
  std::set<i64> departed;  // ranks that hung up
  std::atomic<bool> outlasting = false, stopping = false;
  std::thread thread;
};

StoreServer::StoreServer(const std::string& address, std::string token, i64 world)
    : impl_(std::make_unique<Impl>(address, std::move(token), world)) {
  impl_->thread = std::thread([impl = impl_.get()] { impl->run(); });
}

StoreServer::~StoreServer() {
  impl_->stopping = true;
  impl_->wake_up();
  impl_->thread.join();
}

const std::string& StoreServer::address() const { return impl_->text; }
std::string StoreServer::first_death() const { return impl_->table.first_death(); }

void StoreServer::outlast_others(i64 rank, std::chrono::milliseconds limit) {
  impl_->outlasting = true;  // first: who hears of the death and comes again is not let in
  impl_->table.report_death(rank, "it failed, and says itself why");
  impl_->wake_up();  // calls that wait are answered
  std::unique_lock lock(impl_->mutex);
  const auto others = static_cast<std::size_t>(impl_->world - 1);
  impl_->changed.wait_for(
      lock, limit, [&] { return impl_->departed.size() - impl_->departed.count(rank) >= others; });
}

void StoreServer::Impl::run() {
  while (!stopping) poll_once();
}

void StoreServer::Impl::wake_up() const { eventfd_write(wake.fd(), 1); }

void StoreServer::Impl::poll_once() {
  std::vector<pollfd> polled = {{wake.fd(), POLLIN, 0}, {listener.fd(), POLLIN, 0}};
  Clock::time_point next = Clock::now() + 1h;
  for (const Connection& c : connections) {
    const short events = c.out.empty() ? POLLIN : POLLIN | POLLOUT;
    polled.push_back({c.socket.fd(), events, 0});
    if (c.gone) next = Clock::now();
    if (c.rank < 0) next = std::min(next, c.since + kProofTime);
    if (c.waiting) next = std::min(next, c.deadline);
  }
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now());
  if (poll(polled.data(), polled.size(), static_cast<int>(std::max<i64>(left.count(), 0))) < 0) {
    return;
  }
  eventfd_t times = 0;
  if (polled[0].revents != 0) eventfd_read(wake.fd(), &times);
  std::size_t i = 2;
  for (Connection& c : connections) {
    const short events = polled[i++].revents;
    if ((events & (POLLIN | POLLHUP | POLLERR)) != 0) receive(c);
    if (c.rank < 0 && !c.gone && Clock::now() > c.since + kProofTime) {
      if (!c.closing) refusals.add(c.from, "it did not prove the run token in time");
      c.gone = true;
    }
  }
  if (polled[1].revents != 0) accept_all();
  // Drop these first: a death answers calls. What goes below is dropped in the next round.
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
  for (int i = 0; i < kMostAccepted; ++i) {
    sockaddr_storage name{};
    socklen_t length = sizeof name;
    auto* address_of = reinterpret_cast<sockaddr*>(&name);
    const int fd = accept4(listener.fd(), address_of, &length, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
      if (errno != EMFILE && errno != ENFILE) return;
      // It stays in the queue until a descriptor is free.
      refusals.add("a rank or a stranger", std::strerror(errno));
      std::this_thread::sleep_for(10ms);
      return;
    }
    Connection c;
    c.socket = Socket(fd);
    c.from = host_of(name, length);
    if (address.local && peer_user(fd) != geteuid()) {
      refusals.add(c.from, "it is of another user");
      continue;
    }
    make_room(c.from);
    receive(connections.emplace_back(std::move(c)));  // its hello is often there already
  }
}

// Drops a stranger where the new one is too many: of its host, or in all.
void StoreServer::Impl::make_room(const std::string& from) {
  std::map<std::string, std::size_t> strangers;
  std::size_t all = 0;
  for (const Connection& c : connections) {
    if (c.rank >= 0 || c.gone) continue;
    ++strangers[c.from];
    ++all;
  }
  std::string full;
  const auto ranks = static_cast<std::size_t>(2 * world);
  if (strangers[from] >= kMostOfAddress + ranks) {
    full = from;
  } else if (all >= kMostStrangers + ranks) {
    full = std::ranges::max_element(strangers, {}, [](const auto& s) { return s.second; })->first;
  } else {
    return;
  }
  const auto oldest = std::ranges::find_if(
      connections, [&](const Connection& c) { return c.rank < 0 && !c.gone && c.from == full; });
  refusals.add(full, "too many connections from there have proven nothing; the oldest one went");
  connections.erase(oldest);
}

void StoreServer::Impl::receive(Connection& c) {
  char bytes[65536];
  while (!c.gone && !c.closing) {
    const ssize_t count = recv(c.socket.fd(), bytes, sizeof bytes, 0);
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      if (c.handshake) refusals.add(c.from, kNoProof);
      c.gone = true;
      return;
    }
    c.in.append(bytes, static_cast<std::size_t>(count));
    try {
      WireMessage message;
      while (!c.closing && (c.session ? c.session->take_frame(c.in, kMemberBytes, message)
                                      : take_frame(c.in, kStrangerBytes, message))) {
        serve(c, std::move(message));
      }
    } catch (const std::exception& error) {
      if (c.rank < 0) refusals.add(c.from, error.what());
      refuse(c, error_in_flight());
      c.closing = true;
    }
  }
}

void StoreServer::Impl::flush(Connection& c) {
  std::size_t sent = 0;
  while (sent < c.out.size()) {
    const ssize_t count =
        send(c.socket.fd(), c.out.data() + sent, c.out.size() - sent, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      c.gone = errno != EAGAIN && errno != EWOULDBLOCK;
      break;
    }
    sent += static_cast<std::size_t>(count);
  }
  c.out.erase(0, sent);
}

void StoreServer::Impl::answer(Connection& c, std::string value) {
  WireMessage message{.code = 1};
  message.value = std::move(value);
  c.out += c.session->frame(message);
}

void StoreServer::Impl::refuse(Connection& c, const Error& error) {
  WireMessage message;
  message.key = c.session ? error_json(error) : error.what();
  c.out += c.session ? c.session->frame(message) : message.frame();
}

void StoreServer::Impl::challenge(Connection& c, const WireMessage& hello) const {
  require(hello.key.size() == StoreHandshake::kNumberBytes, "store: a hello without a number");
  c.handshake = StoreHandshake{.place = address.place(),
                               .rank = hello.number,
                               .world = hello.world,
                               .purpose = hello.value,
                               .rank_number = hello.key,
                               .store_number = random_bytes(StoreHandshake::kNumberBytes)};
  WireMessage message{.code = 1};
  message.key = c.handshake->store_number;
  message.value = c.handshake->proof_of_store(token);
  c.out += message.frame();
}

std::string StoreServer::Impl::refusal(const StoreHandshake& shown) const {
  if (shown.world != world) {
    return fmt::format("this run has {} ranks, not {}", world, shown.world);
  }
  if (shown.rank < 0 || shown.rank >= world) {
    return fmt::format("there is no rank {} among {}", shown.rank, world);
  }
  if (!shown.purpose.empty() && present.contains(shown.rank)) {
    return fmt::format("rank {} is here already", shown.rank);
  }
  return {};
}

void StoreServer::Impl::welcome(Connection& c, const WireMessage& proof) {
  require(same_secret(proof.key, c.handshake->proof_of_rank(token)), "{}", kNoProof);
  c.session.emplace(*c.handshake, token, StoreSession::Side::store);
  const StoreHandshake shown = std::move(*c.handshake);
  c.handshake.reset();
  // One that was started again looks for the run's next store.
  c.gone = outlasting && departed.contains(shown.rank);
  if (c.gone) return;
  const std::string reason = refusal(shown);
  c.closing = !reason.empty();
  if (c.closing) {
    refuse(c, Error(reason));
    return refusals.add(c.from, reason);
  }
  answer(c, {});
  c.rank = shown.rank;
  c.primary = !shown.purpose.empty();
  if (c.primary) present.insert(c.rank);
}

void StoreServer::Impl::serve(Connection& c, WireMessage message) {
  const auto call = static_cast<StoreCall>(message.code);
  if (c.handshake) {
    require(call == StoreCall::proof, "{}", kNoProof);
    return welcome(c, message);
  }
  if (c.rank < 0) {
    require(call == StoreCall::hello, "store: the first message must be a hello");
    return challenge(c, message);
  }
  switch (call) {
    case StoreCall::set:
      table.set(message.key, message.value);
      return answer(c, {});
    case StoreCall::add:
      return answer(c, std::to_string(table.add(message.key, message.number)));
    case StoreCall::death:
      return answer(c, table.first_death());
    case StoreCall::get:
      c.waiting = true;
      c.deadline = Clock::now() + std::chrono::milliseconds(message.number);
      c.call = std::move(message);
      return answer_waiting(c);
    case StoreCall::goodbye:
      if (c.primary) leave(c);
      c.closing = true;
      return;
    default:
      fail("store: unknown call {}", static_cast<int>(message.code));
  }
}

void StoreServer::Impl::answer_waiting(Connection& c) {
  if (std::optional<std::string> value = table.find(c.call.key)) {
    answer(c, std::move(*value));
  } else if (Clock::now() >= c.deadline || !table.first_death().empty()) {
    const std::chrono::milliseconds waited(c.call.number);
    refuse(c, table.missing(c.call.key, waited));
  } else {
    return;
  }
  c.waiting = false;
}

void StoreServer::Impl::drop(Connection& c) {
  if (!c.primary) return;
  table.report_death(c.rank, "its connection to the store closed");
  leave(c);
}

void StoreServer::Impl::leave(Connection& c) {
  c.primary = false;
  present.erase(c.rank);
  {
    const std::lock_guard lock(mutex);
    departed.insert(c.rank);
  }
  changed.notify_all();
}

}  // namespace tessera
