#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "tessera/types.hpp"

namespace tessera {

/// Values of parameters in another floating dtype, and what that costs.
class Rounded {
 public:
  explicit Rounded(DType to) : to_(to) {}

  /// `values` of parameter `name`, each rounded once, to nearest even. Throws ConfigError where a
  /// finite one is too large for the type.
  std::vector<std::byte> operator()(const std::string& name,
                                    std::span<const std::byte> values,
                                    DType from);
  /// How many values the type does not hold, and the largest error; empty: it holds all.
  std::string text() const;

 private:
  DType to_;
  i64 values_ = 0, parameters_ = 0;
  double largest_ = 0;      // error
  std::string largest_in_;  // the parameter
};

}  // namespace tessera
