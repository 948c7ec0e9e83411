#include "peers.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <thread>

#include <tessera/device/readable_until.hpp>
#include <tessera/error.hpp>

namespace tessera::shm {

namespace {

using Clock = std::chrono::steady_clock;

// What ranks tell each other; the segment's descriptor travels with it.
struct Hello {
  u64 secret;  // of the rank that listens, as it stands in the store
  i64 rank, bytes;
};

struct Name {
  sockaddr_un address{};
  socklen_t length;
  explicit Name(const std::string& name)
      : length(static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())) {
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name.data(), name.size());  // abstract: leading zero byte
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

u64 random_number() {
  u64 number = 0;
  require(getrandom(&number, sizeof number, 0) == sizeof number, "shm: no random numbers");
  return number;
}

struct Rights {
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int))] = {};
};

void send_hello(const Fd& connection, Hello hello, const Fd& segment) {
  Rights rights;
  iovec part{&hello, sizeof hello};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = rights.space;
  message.msg_controllen = sizeof rights.space;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  const int fd = segment.get();
  std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  const ssize_t sent = sendmsg(connection.get(), &message, MSG_NOSIGNAL);
  require(sent == sizeof hello, "shm: cannot send the segment: {}", SystemError());
}

// The peer's hello and segment; no descriptor when the peer is not a rank of this run.
std::pair<Hello, Fd> receive_hello(const Fd& connection, Clock::time_point deadline) {
  Hello hello{};
  if (!readable_until(connection.get(), deadline)) return {};
  Rights rights;
  iovec part{&hello, sizeof hello};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = rights.space;
  message.msg_controllen = sizeof rights.space;
  const ssize_t got = recvmsg(connection.get(), &message, MSG_CMSG_CLOEXEC);
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  Fd segment;
  if (header != nullptr && header->cmsg_type == SCM_RIGHTS) {
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
    segment = Fd(fd);
  }
  struct stat file {};
  if (got != sizeof hello || !segment || fstat(segment.get(), &file) != 0 || hello.bytes <= 0 ||
      file.st_size < hello.bytes) {
    return {};
  }
  return {hello, std::move(segment)};
}

// The system's own, whoever took the name of the socket.
ucred credentials_of(const Fd& connection) {
  ucred found{};
  socklen_t length = sizeof found;
  if (getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &found, &length) != 0) found.uid = -1;
  return found;
}

// Returns none while the socket's queue is full, of ranks or of strangers.
Fd connect_once(const Name& name) {
  Fd connection(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (connect(connection.get(), name.get(), name.length) != 0) return {};
  fcntl(connection.get(), F_SETFL, 0);
  return connection;
}

Peer make_peer(i64 number, Fd connection, const Hello& hello, const Fd& segment) {
  Peer peer;
  peer.segment = Mapping(segment, hello.bytes, fmt::format("rank {}'s segment", number));
  peer.pid = credentials_of(connection).pid;
  if (peer.pid > 0) peer.process = Fd(static_cast<int>(syscall(SYS_pidfd_open, peer.pid, 0)));
  peer.connection = std::move(connection);
  return peer;
}

class Meeting {
 public:
  Meeting(const CommunicatorArguments& arguments, const Segment& own)
      : arguments_(arguments),
        own_(own),
        deadline_(Clock::now() + arguments.init_timeout),
        peers_(static_cast<std::size_t>(arguments.world)) {}

  std::vector<Peer> run() {
    listen();
    // Connections wait in the other's queue, so nobody has to accept before all have connected.
    std::vector<Fd> connections;
    for (i64 rank = 0; rank < arguments_.rank; ++rank) connections.push_back(connect(rank));
    for (i64 missing = arguments_.world - 1 - arguments_.rank; missing > 0;) {
      if (accept()) --missing;
    }
    for (i64 rank = 0; rank < arguments_.rank; ++rank) {
      Fd& connection = connections[static_cast<std::size_t>(rank)];
      auto [hello, segment] = receive_hello(connection, deadline_);
      if (!segment || hello.rank != rank) {
        throw Error(fmt::format("shm: rank {} did not answer", number(rank)),
                    ErrorKind::peer_silent);
      }
      at(rank) = make_peer(number(rank), std::move(connection), hello, segment);
    }
    return std::move(peers_);
  }

 private:
  Peer& at(i64 rank) { return peers_[static_cast<std::size_t>(rank)]; }
  std::string key(i64 rank) const { return fmt::format("shm/meet/{}/{}", round_, rank); }

  void listen() {
    round_ = arguments_.store->add(fmt::format("shm/meetings/{}", arguments_.rank), 1);
    secret_ = random_number();
    const std::string name = fmt::format("tessera-shm-{:016x}", random_number());
    listener_ = Fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const Name bound(name);
    require(bind(listener_.get(), bound.get(), bound.length) == 0 &&
                ::listen(listener_.get(), static_cast<int>(arguments_.world) + 16) == 0,
            "shm: cannot listen: {}",
            SystemError());
    arguments_.store->set(key(arguments_.rank), fmt::format("{} {}", secret_, name));
  }

  Fd connect(i64 rank) {
    const std::string value = arguments_.store->get(key(rank), arguments_.init_timeout);
    const std::size_t space = value.find(' ');
    const Name name(value.substr(space + 1));
    Fd connection = connect_once(name);
    for (; !connection && errno == EAGAIN && Clock::now() < deadline_;
         connection = connect_once(name)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    require(bool(connection),
            "shm: rank {} cannot reach rank {}: {}; \"shm\" joins ranks of one host (and of one "
            "container), use \"gloo\" between hosts",
            number(arguments_.rank),
            number(rank),
            SystemError());
    // Checked before the first byte, and the descriptor, is sent.
    require(credentials_of(connection).uid == geteuid(),
            "shm: the socket of rank {} belongs to another user; rank {} has told it nothing",
            number(rank),
            number(arguments_.rank));
    const Hello hello{std::stoull(value.substr(0, space)), arguments_.rank, bytes()};
    send_hello(connection, hello, own_.file());
    return connection;
  }

  // Returns false when it was a stranger, who is dropped.
  bool accept() {
    if (!readable_until(listener_.get(), deadline_)) {
      throw Error(fmt::format("shm: {} did not come within {:.1f} s",
                              missing(),
                              std::chrono::duration<double>(arguments_.init_timeout).count()),
                  ErrorKind::peer_silent);
    }
    Fd connection(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!connection || credentials_of(connection).uid != geteuid()) return false;
    const auto patience = Clock::now() + std::chrono::seconds(10);
    auto [hello, segment] = receive_hello(connection, std::min(patience, deadline_));
    const bool known = segment && hello.secret == secret_ && hello.rank > arguments_.rank &&
                       hello.rank < arguments_.world && at(hello.rank).segment.base() == nullptr;
    if (!known) return false;
    send_hello(connection, {0, arguments_.rank, bytes()}, own_.file());
    at(hello.rank) = make_peer(number(hello.rank), std::move(connection), hello, segment);
    return true;
  }

  i64 bytes() const { return own_.mapping().bytes(); }
  i64 number(i64 rank) const { return arguments_.number(rank); }

  std::string missing() {
    std::string text;
    for (i64 rank = arguments_.rank + 1; rank < arguments_.world; ++rank) {
      if (at(rank).segment.base() == nullptr) {
        text += fmt::format("{} {}", text.empty() ? "rank" : ",", number(rank));
      }
    }
    return text;
  }

  const CommunicatorArguments& arguments_;
  const Segment& own_;
  Clock::time_point deadline_;
  std::vector<Peer> peers_;
  Fd listener_;
  u64 secret_ = 0;
  i64 round_ = 0;
};

}  // namespace

std::vector<Peer> meet_peers(const CommunicatorArguments& arguments, const Segment& own) {
  return Meeting(arguments, own).run();
}

std::string death_of(const Peer& peer) {
  pollfd watched[2] = {{peer.connection.get(), POLLRDHUP, 0}, {peer.process.get(), POLLIN, 0}};
  if (poll(watched, 2, 0) <= 0) return {};
  const bool closed = (watched[0].revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
  const bool ended = (watched[1].revents & POLLIN) != 0;
  return closed || ended ? fmt::format("its process {} has ended", peer.pid) : std::string();
}

}  // namespace tessera::shm
