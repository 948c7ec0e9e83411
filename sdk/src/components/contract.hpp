#pragma once
#include <cmath>
#include <string_view>
#include <type_traits>

#include "tessera/error.hpp"

namespace tessera {

/// What a component returned, which an interface bounds.
template <class T>
T at_least(std::type_identity_t<T> least, std::string_view what, T count) {
  require(count >= least, "{} is {}; it has to be at least {}", what, count, least);
  return count;
}
inline double finite(std::string_view what, double number) {
  require(std::isfinite(number), "{} is {}; it has to be finite", what, number);
  return number;
}
inline double not_negative(std::string_view what, double number) {
  require(std::isfinite(number) && number >= 0,
          "{} is {}; it has to be finite and not negative",
          what,
          number);
  return number;
}

}  // namespace tessera
