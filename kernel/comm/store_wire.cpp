#include "kernel/comm/store_wire.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "tessera/error.hpp"

namespace tessera {

namespace {

struct LocalName {
  sockaddr_un address{};
  socklen_t length = 0;
  explicit LocalName(const std::string& name) {
    address.sun_family = AF_UNIX;
    require(name.size() + 1 < sizeof address.sun_path, "store: \"unix:@{}\" is too long", name);
    std::memcpy(address.sun_path + 1, name.data(), name.size());  // abstract: a leading zero byte
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Addresses resolve(const StoreAddress& address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const char* host = address.host.empty() ? "127.0.0.1" : address.host.c_str();
  const int error = getaddrinfo(host, address.port.c_str(), &hints, &found);
  require(error == 0, "store: cannot resolve {}: {}", address.text(), gai_strerror(error));
  return {found, &freeaddrinfo};
}

bool is_loopback(const sockaddr* name) {
  if (name->sa_family == AF_INET6) {
    const in6_addr& address = reinterpret_cast<const sockaddr_in6*>(name)->sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(&address);
  }
  return (ntohl(reinterpret_cast<const sockaddr_in*>(name)->sin_addr.s_addr) >> 24) == 127;
}

bool is_number(const std::string& host) {
  in6_addr ignored;
  return inet_pton(AF_INET, host.c_str(), &ignored) == 1 ||
         inet_pton(AF_INET6, host.c_str(), &ignored) == 1;
}

// Where to listen. Many systems give their own name a loopback address, where no other host reaches
// them: a run that names this host so listens on all of its addresses.
Addresses resolve_own(const StoreAddress& address) {
  Addresses found = resolve(address);
  if (address.host.empty() || address.host == "localhost" || is_number(address.host)) return found;
  const char* everywhere = "::";
  for (const addrinfo* a = found.get(); a != nullptr; a = a->ai_next) {
    if (!is_loopback(a->ai_addr)) return found;
    if (a->ai_family == AF_INET) everywhere = "0.0.0.0";
  }
  return resolve({false, everywhere, address.port});
}

// Returns an empty socket, with errno, where this process may have none of that family.
Socket open_socket(int family, int flags = 0) {
  Socket socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | flags, 0));
  const bool used_up = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
  require(static_cast<bool>(socket) || !used_up, "store: cannot open a socket: {}", SystemError());
  return socket;
}

Socket open_local(int flags = 0) {
  Socket socket = open_socket(AF_UNIX, flags);
  require(static_cast<bool>(socket), "store: cannot open a socket: {}", SystemError());
  return socket;
}

void set_option(int fd, int level, int option, int value) {
  setsockopt(fd, level, option, &value, sizeof value);
}

// A host that vanishes must not look alive for hours.
void watch_connection(int fd) {
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 4);
}

std::string chosen_port(int fd) {
  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &length);
  const in_port_t port = bound.ss_family == AF_INET6
                             ? reinterpret_cast<const sockaddr_in6&>(bound).sin6_port
                             : reinterpret_cast<const sockaddr_in&>(bound).sin_port;
  return std::to_string(ntohs(port));
}

template <class T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <class T>
T take(std::string_view& in) {
  require(in.size() >= sizeof(T), "store: a message is cut off");
  T value;
  std::memcpy(&value, in.data(), sizeof value);
  in.remove_prefix(sizeof value);
  return value;
}

std::string take_text(std::string_view& in) {
  const u32 length = take<u32>(in);
  require(in.size() >= length, "store: a message is cut off");
  std::string text(in.substr(0, length));
  in.remove_prefix(length);
  return text;
}

constexpr u32 kMagic = 0x33535354;  // "TSS3": tells our peers from web browsers and port scanners

}  // namespace

Socket::~Socket() {
  if (fd_ >= 0) close(fd_);
}

StoreAddress StoreAddress::parse(const std::string& text) {
  if (text.starts_with("unix:@") && text.size() > 6) return {true, text.substr(6), {}};
  const std::size_t colon = text.rfind(':');
  if (text.starts_with("tcp:") && colon > 3) {
    StoreAddress address{false, text.substr(4, colon - 4), text.substr(colon + 1)};
    const std::string& port = address.port;
    const bool digits = port.find_first_not_of("0123456789") == std::string::npos;
    if (digits && !port.empty() && port.size() <= 5) return address;
  }
  fail_config("store address \"{}\" is neither \"unix:@name\" nor \"tcp:host:port\"", text);
}

std::string StoreAddress::text() const {
  return local ? "unix:@" + host : "tcp:" + host + ":" + port;
}

Socket listen_at(StoreAddress& address) {
  constexpr int kBacklog = 1024;
  int error = 0;
  const auto listens = [&](int fd, const sockaddr* name, socklen_t length) {
    if (bind(fd, name, length) == 0 && listen(fd, kBacklog) == 0) return true;
    error = errno;
    return false;
  };
  if (address.local) {
    Socket socket = open_local(SOCK_NONBLOCK);
    const LocalName name(address.host);
    if (listens(socket.fd(), name.get(), name.length)) return socket;
  } else {
    const Addresses addresses = resolve_own(address);
    for (const addrinfo* a = addresses.get(); a != nullptr; a = a->ai_next) {
      Socket socket = open_socket(a->ai_family, SOCK_NONBLOCK);
      if (!socket) {
        if (error == 0) error = errno;
        continue;
      }
      set_option(socket.fd(), SOL_SOCKET, SO_REUSEADDR, 1);
      if (!listens(socket.fd(), a->ai_addr, a->ai_addrlen)) continue;
      if (address.host.empty()) address.host = "127.0.0.1";
      address.port = chosen_port(socket.fd());
      return socket;
    }
  }
  fail("store: cannot listen at {}: {}", address.text(), SystemError(error));
}

Socket try_connect(const StoreAddress& address) {
  if (address.local) {
    // A blocking connect would wait for as long as a stranger leaves the queue full.
    Socket socket = open_local(SOCK_NONBLOCK);
    const LocalName name(address.host);
    if (connect(socket.fd(), name.get(), name.length) != 0) return {};
    fcntl(socket.fd(), F_SETFL, 0);
    return socket;
  }
  const Addresses addresses = resolve(address);
  for (const addrinfo* a = addresses.get(); a != nullptr; a = a->ai_next) {
    Socket socket = open_socket(a->ai_family);
    if (!socket) continue;
    watch_connection(socket.fd());
    set_option(socket.fd(), IPPROTO_TCP, TCP_SYNCNT, 2);  // some seconds in all
    if (connect(socket.fd(), a->ai_addr, a->ai_addrlen) == 0) return socket;
  }
  return {};
}

std::optional<u32> peer_user(int fd) {
  ucred found{};
  socklen_t length = sizeof found;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &found, &length) != 0) return std::nullopt;
  return found.uid;
}

std::string WireMessage::body() const {
  std::string out;
  put(out, kMagic);
  put(out, code);
  put(out, number);
  put(out, world);
  for (const std::string* text : {&key, &value}) {
    put(out, static_cast<u32>(text->size()));
    out += *text;
  }
  return out;
}

std::string WireMessage::frame() const { return frame_of(body()); }

WireMessage WireMessage::parse(std::string_view in) {
  require(take<u32>(in) == kMagic, "store: not a message of this protocol");
  WireMessage message;
  message.code = take<u8>(in);
  message.number = take<i64>(in);
  message.world = take<i64>(in);
  message.key = take_text(in);
  message.value = take_text(in);
  return message;
}

std::string frame_of(std::string_view body) {
  std::string out;
  put(out, static_cast<u32>(body.size()));
  out += body;
  return out;
}

std::optional<std::string> take_body(std::string& buffer, std::size_t most) {
  if (buffer.size() < kFrameHeader) return std::nullopt;
  u32 length = 0;
  std::memcpy(&length, buffer.data(), sizeof length);
  require(length <= most, "store: a message of {} bytes, at most {} are allowed", length, most);
  if (buffer.size() < kFrameHeader + length) return std::nullopt;
  std::string body = buffer.substr(kFrameHeader, length);
  buffer.erase(0, kFrameHeader + length);
  return body;
}

bool take_frame(std::string& buffer, std::size_t most, WireMessage& message) {
  const std::optional<std::string> body = take_body(buffer, most);
  if (!body) return false;
  message = WireMessage::parse(*body);
  return true;
}

}  // namespace tessera
