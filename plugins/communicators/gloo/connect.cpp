#include "connect.hpp"

#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <sys/random.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <vector>

#include <gloo/transport/context.h>
#include <gloo/transport/pair.h>
#include <gloo/transport/tcp/device.h>
#include <tessera/error.hpp>
#include <tessera/io/written.hpp>

namespace tessera::gloo_tcp {

namespace {

// Each rank makes a number for each peer and puts it into the store, which only ranks of this run
// can read. The peer's first message shows it.
struct Hello {
  u64 number;
  i64 rank;
};

struct Entry {
  u64 number;
  std::vector<char> address;
};

u64 random_number() {
  u64 number = 0;
  require(getrandom(&number, sizeof number, 0) == sizeof number, "gloo: no random numbers");
  return number;
}

void put_entry(std::string& out, const Entry& entry) {
  const u64 parts[] = {entry.number, entry.address.size()};
  out.append(reinterpret_cast<const char*>(parts), sizeof parts);
  out.append(entry.address.data(), entry.address.size());
}

// The entry for one rank among those of all.
Entry take_entry(std::string_view text, i64 rank) {
  for (i64 i = 0;; ++i) {
    u64 parts[2];
    require(text.size() >= sizeof parts, "gloo: an address in the store is cut off");
    std::memcpy(parts, text.data(), sizeof parts);
    text.remove_prefix(sizeof parts);
    require(text.size() >= parts[1], "gloo: an address in the store is cut off");
    if (i == rank) return {parts[0], {text.begin(), text.begin() + static_cast<i64>(parts[1])}};
    text.remove_prefix(parts[1]);
  }
}

// Keeps a closed connection from ending the process while Gloo writes on this thread, and on those
// that it starts.
class NoBrokenPipe {
 public:
  NoBrokenPipe() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGPIPE);
    sigset_t before;
    pthread_sigmask(SIG_BLOCK, &set_, &before);
    blocked_ = sigismember(&before, SIGPIPE) == 0;
  }
  ~NoBrokenPipe() {
    if (!blocked_) return;
    const timespec now{};
    while (sigtimedwait(&set_, nullptr, &now) == SIGPIPE) {
    }
    pthread_sigmask(SIG_UNBLOCK, &set_, nullptr);
  }
  NoBrokenPipe(const NoBrokenPipe&) = delete;
  NoBrokenPipe& operator=(const NoBrokenPipe&) = delete;

 private:
  sigset_t set_;
  bool blocked_;  // by us
};

class Connector {
 public:
  Connector(const CommunicatorArguments& arguments, const std::string& prefix)
      : arguments_(arguments), prefix_(prefix), own_(static_cast<std::size_t>(arguments.world)) {}

  Mesh run(const BindAddress& address) {
    listen(address);
    publish();
    for (i64 rank = 0; rank < arguments_.world; ++rank) {
      if (rank != arguments_.rank) connect(rank, address);
    }
    greet_all();
    return std::move(mesh_);
  }

 private:
  std::string key(i64 rank) const { return fmt::format("{}/address/{}", prefix_, rank); }
  int index(i64 rank) const { return static_cast<int>(rank); }

  // Gloo crashes where a host name does not resolve.
  static void require_resolved(const std::string& host) {
    if (host.empty()) return;
    addrinfo* found = nullptr;
    const int error = getaddrinfo(host.c_str(), nullptr, nullptr, &found);
    require(error == 0, "{}", gai_strerror(error));
    freeaddrinfo(found);
  }

  void listen(const BindAddress& address) {
    ::gloo::transport::tcp::attr attr;
    attr.hostname = address.host;
    attr.iface = address.interface;
    try {
      require_resolved(address.host);
      const NoBrokenPipe guard;  // inherited by Gloo's thread
      mesh_.device = ::gloo::transport::tcp::CreateDevice(attr);
      mesh_.context = mesh_.device->createContext(index(arguments_.rank), index(arguments_.world));
      // Gloo waits five times as long for a connection.
      mesh_.context->setTimeout(std::max(arguments_.init_timeout / 5, kShortest));
      for (i64 rank = 0; rank < arguments_.world; ++rank) {
        if (rank == arguments_.rank) continue;
        own_[static_cast<std::size_t>(rank)] = {
            random_number(), mesh_.context->createPair(index(rank))->address().bytes()};
      }
    } catch (const std::exception& error) {
      constexpr std::size_t kShown = 400;
      fail("gloo: rank {} cannot listen on {}: {}; set comm.bind or comm.interface",
           arguments_.rank,
           address.text(),
           written_plain(error.what(), kShown));  // it names the interface
    }
  }

  void publish() {
    std::string text;
    for (const Entry& entry : own_) put_entry(text, entry);
    arguments_.store->set(key(arguments_.rank), text);
  }

  void connect(i64 rank, const BindAddress& address) {
    const std::string text = arguments_.store->get(key(rank), arguments_.init_timeout);
    const Entry entry = take_entry(text, arguments_.rank);
    shown_.push_back(entry.number);
    try {
      mesh_.context->getPair(index(rank))->connect(entry.address);
    } catch (const std::exception& error) {
      throw Error(
          fmt::format("gloo: rank {}, listening on {}, cannot connect to rank {}: {}; if hosts "
                      "share another network, name it in MASTER_ADDR or set comm.interface or "
                      "comm.bind",
                      arguments_.rank,
                      address.text(),
                      rank,
                      error.what()),
          ErrorKind::peer_silent);
    }
  }

  void greet_all() {
    std::vector<Hello> said(own_.size()), heard(own_.size());
    std::vector<std::unique_ptr<Buffer>> buffers;
    std::size_t next = 0;
    for (i64 rank = 0; rank < arguments_.world; ++rank) {
      if (rank == arguments_.rank) continue;
      const auto r = static_cast<std::size_t>(rank);
      said[r] = {shown_[next++], arguments_.rank};
      heard[r] = {};
      const NoBrokenPipe guard;
      try {
        buffers.push_back(mesh_.context->createUnboundBuffer(&heard[r], sizeof(Hello)));
        buffers.back()->recv(index(rank), kHelloSlot);
        buffers.push_back(mesh_.context->createUnboundBuffer(&said[r], sizeof(Hello)));
        buffers.back()->send(index(rank), kHelloSlot);
      } catch (const std::exception& error) {
        fail(
            "gloo: rank {} lost rank {} while connecting: {}", arguments_.rank, rank, error.what());
      }
    }
    next = 0;
    for (i64 rank = 0; rank < arguments_.world; ++rank) {
      if (rank == arguments_.rank) continue;
      try {
        buffers[next++]->waitRecv(nullptr, arguments_.init_timeout);
        buffers[next++]->waitSend(nullptr, arguments_.init_timeout);
      } catch (const std::exception& error) {
        mesh_.close();
        throw Error(fmt::format("gloo: rank {} heard no greeting from rank {}: {}",
                                arguments_.rank,
                                rank,
                                error.what()),
                    ErrorKind::peer_silent);
      }
      const auto r = static_cast<std::size_t>(rank);
      require(heard[r].number == own_[r].number && heard[r].rank == rank,
              "gloo: the process that connected to rank {} as rank {} is not of this run",
              arguments_.rank,
              rank);
    }
  }

  static constexpr std::chrono::milliseconds kShortest{1000};
  const CommunicatorArguments& arguments_;
  const std::string& prefix_;
  std::vector<Entry> own_;  // for each peer
  std::vector<u64> shown_;  // to each peer in turn
  Mesh mesh_;
};

}  // namespace

void Mesh::close() noexcept {
  if (context == nullptr) return;
  for (int rank = 0; rank < context->size; ++rank) {
    try {
      if (rank != context->rank) context->getPair(rank)->close();
    } catch (const std::exception&) {  // closed is all that is wanted
    }
  }
}

Mesh connect_all(const CommunicatorArguments& arguments,
                 const std::string& prefix,
                 const BindAddress& address) {
  return Connector(arguments, prefix).run(address);
}

}  // namespace tessera::gloo_tcp
