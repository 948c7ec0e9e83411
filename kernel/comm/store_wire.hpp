#pragma once
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "tessera/types.hpp"

namespace tessera {

/// Owns a file descriptor.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket();
  int fd() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

/// "unix:@name" or "tcp:host:port".
struct StoreAddress {
  bool local = false;
  std::string host;  ///< of a local one: the name after the "@"
  std::string port;
  /// Throws ConfigError for anything else.
  static StoreAddress parse(const std::string& text);
  std::string text() const;
  /// The part that both ends know: hosts have several names, so a port or a local name.
  const std::string& place() const { return local ? host : port; }
};

/// `given`, or TESSERA_RUN_TOKEN where it is empty; throws ConfigError when that is not set.
std::string run_token(std::string given);

/// Listens; fills in the port that the system chose. Throws Error with the reason.
Socket listen_at(StoreAddress& address);
/// One attempt; an empty socket when nobody listens (yet), or a local one has no room now.
Socket try_connect(const StoreAddress& address);

/// The user of the process at the other end of a local socket, as the system has it; none where it
/// does not say.
std::optional<u32> peer_user(int fd);

enum class StoreCall : u8 { hello, proof, set, get, add, death, goodbye };

/// A message either way: a frame is 4 bytes length and a body, in which the fields are.
struct WireMessage {
  u8 code = 0;     ///< a StoreCall; in an answer 1 for success, 0 with an error in `key`
  i64 number = 0;  ///< a rank, an amount, milliseconds
  i64 world = 0;
  std::string key = {}, value = {};
  std::string body() const;
  std::string frame() const;
  /// Throws Error when it is malformed.
  static WireMessage parse(std::string_view body);
};
inline constexpr std::size_t kFrameHeader = 4;
inline constexpr std::size_t kStrangerBytes = 4096;     ///< longest frame before a proof
inline constexpr std::size_t kMemberBytes = 256 << 20;  ///< longest frame after it

std::string frame_of(std::string_view body);
/// Takes one whole frame off the front of `buffer`; nothing when it is not complete. Throws Error
/// when it is longer than `most`.
std::optional<std::string> take_body(std::string& buffer, std::size_t most);
/// The same for a message as it stands. Throws Error when it is malformed, too.
bool take_frame(std::string& buffer, std::size_t most, WireMessage& message);

}  // namespace tessera
