#include "kernel/launch/ask_store.hpp"

#include "tessera/error.hpp"

namespace tessera {

std::optional<std::string> AskStore::get(const std::string& key, std::chrono::milliseconds wait) {
  constexpr std::chrono::milliseconds kAnswer{5000};  // beyond the time of a call
  const auto asked = Clock::now();
  try {
    std::string text = store_.get(key, wait);
    answered_ = Clock::now();
    unanswered_ = 0;
    return text;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::peer_silent) throw;
    const auto now = Clock::now();
    if (now - asked < wait + kAnswer) {
      answered_ = now;
      unanswered_ = 0;
    } else if (++unanswered_ > 1 && now - answered_ > silence_) {
      throw;
    }
    return std::nullopt;
  }
}

}  // namespace tessera
