#pragma once
#include <string>
#include <string_view>

#include "kernel/comm/crypto.hpp"
#include "kernel/comm/store_wire.hpp"

namespace tessera {

/// How a connection to a store begins. Both sides prove that they know the run's token and never
/// send it. A proof is a keyed hash of all that follows, of the side that makes it, and of a number
/// that each side has drawn for this connection: so none fits another connection or another side.
///
///     rank                          store
///     rank, world, purpose, number ->
///                                  <- its number, its proof    the rank hangs up where it is wrong
///     its proof                    ->                          the store too
///                                  <- welcome, or why not      sealed, like all that follows
struct StoreHandshake {
  static constexpr std::size_t kNumberBytes = 32;
  std::string place;  ///< of the store: StoreAddress::place()
  i64 rank = 0, world = 0;
  std::string purpose;  ///< "primary" closes with the rank; empty: a further connection of it
  std::string rank_number, store_number;

  std::string proof_of_rank(std::string_view token) const { return derive(token, "rank proves"); }
  std::string proof_of_store(std::string_view token) const { return derive(token, "store proves"); }

 private:
  friend class StoreSession;
  std::string derive(std::string_view token, std::string_view use) const;
};

/// What both sides say after the handshake, sealed by keys of this connection.
class StoreSession {
 public:
  enum class Side : u8 { rank, store };
  StoreSession(const StoreHandshake& handshake, std::string_view token, Side side);

  /// A frame that only the other side can read, and only as its next one.
  std::string frame(const WireMessage& message);
  /// Like tessera::take_frame, with what the other side sealed.
  bool take_frame(std::string& buffer, std::size_t most, WireMessage& message);

 private:
  SealedMessages out_, in_;
};

}  // namespace tessera
