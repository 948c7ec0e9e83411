#pragma once
#include <fmt/format.h>

#include <exception>
#include <string>
#include <string_view>

#include "tessera/base/hash.hpp"

namespace tessera {

/// The name of kept arrays (kept_bytes.hpp): what they are, and a hash of all that decides them.
inline std::string kept_name(std::string_view what, const std::string& decides) {
  constexpr int kVersion = 1;  // another version of arrays has another name
  return fmt::format("{}-{:016x}", what, hash64(fmt::format("{} {}", kVersion, decides)));
}

/// Are they those of a View?
template <class View>
bool reads_as(std::string_view bytes) {
  try {
    const View view(bytes);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace tessera
