#pragma once
#include <cstdint>
#include <string>

#include "tessera/error.hpp"
#include "tessera/io/token_index.hpp"

namespace tessera {

/// Calls f with a value of the C++ type in which ids of this type lie in a file.
template <class F>
decltype(auto) with_token_type(TokenType type, F&& f) {
  switch (type) {
    case TokenType::u8:
      return f(std::uint8_t{});
    case TokenType::i8:
      return f(std::int8_t{});
    case TokenType::i16:
      return f(std::int16_t{});
    case TokenType::i32:
      return f(std::int32_t{});
    case TokenType::i64:
      return f(std::int64_t{});
    case TokenType::f64:
      return f(double{});
    case TokenType::f32:
      return f(float{});
    case TokenType::u16:
      return f(std::uint16_t{});
  }
  fail("no type of tokens has the number {}", static_cast<int>(type));
}

/// What a report calls the index that it belongs to.
inline std::string token_index_name(u64 hash) { return fmt::format("{:016x}", hash); }

}  // namespace tessera
