#include "kernel/comm/store_session.hpp"

#include <optional>

namespace tessera {

std::string StoreHandshake::derive(std::string_view token, std::string_view use) const {
  return keyed_hash(token,
                    {"tessera store 2",
                     use,
                     place,
                     std::to_string(rank),
                     std::to_string(world),
                     purpose,
                     rank_number,
                     store_number});
}

StoreSession::StoreSession(const StoreHandshake& handshake, std::string_view token, Side side)
    : out_(handshake.derive(token, side == Side::rank ? "rank says" : "store says")),
      in_(handshake.derive(token, side == Side::rank ? "store says" : "rank says")) {}

std::string StoreSession::frame(const WireMessage& message) {
  return frame_of(out_.seal(message.body()));
}

bool StoreSession::take_frame(std::string& buffer, std::size_t most, WireMessage& message) {
  const std::optional<std::string> body = take_body(buffer, most);
  if (!body) return false;
  message = WireMessage::parse(in_.open(*body));
  return true;
}

}  // namespace tessera
