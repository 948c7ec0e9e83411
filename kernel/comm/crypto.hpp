#pragma once
#include <initializer_list>
#include <string>
#include <string_view>

#include "tessera/types.hpp"

namespace tessera {

/// What the store uses of libsodium. Keys, hashes and random bytes are strings of bytes.

/// HMAC-SHA-256 over `parts`, 32 bytes. Each part counts with its length, so that no two lists of
/// parts are the same text.
std::string keyed_hash(std::string_view key, std::initializer_list<std::string_view> parts);
std::string random_bytes(std::size_t count);
/// Takes the same time wherever the texts differ, so that it tells nothing.
bool same_secret(std::string_view a, std::string_view b);
std::string hex_text(std::string_view bytes);

/// One direction of a connection, encrypted and authenticated (ChaCha20-Poly1305). The messages are
/// numbered: one that was changed, repeated, left out or moved does not open.
class SealedMessages {
 public:
  /// `key`: 32 bytes, for this direction of this connection alone.
  explicit SealedMessages(std::string key) : key_(std::move(key)) {}
  std::string seal(std::string_view text);
  /// The text of the next message. Throws Error when it is not what the other side sealed.
  std::string open(std::string_view sealed);

 private:
  std::string key_;
  u64 number_ = 0;
};

}  // namespace tessera
