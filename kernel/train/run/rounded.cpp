#include "kernel/train/run/rounded.hpp"

#include <fmt/format.h>

#include <cmath>

#include "kernel/checkpoint/host_floats.hpp"
#include "tessera/error.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

std::vector<std::byte> Rounded::operator()(const std::string& name,
                                           std::span<const std::byte> values,
                                           DType from) {
  std::vector<std::byte> out = converted(values, from, to_);
  if (from == to_) return out;
  const i64 count = static_cast<i64>(values.size()) / dtype_size(from), before = values_;
  for (i64 i = 0; i < count; ++i) {
    const double value = value_at(from, values, i), kept = value_at(to_, out, i);
    if (value == kept || (std::isnan(value) && std::isnan(kept))) continue;
    if (!std::isfinite(kept)) {
      fail_config("{} has the value {}, which is too large for {}: write it as bf16 or fp32",
                  quote(name),
                  value,
                  dtype_name(to_));
    }
    ++values_;
    if (std::abs(kept - value) < largest_) continue;
    largest_ = std::abs(kept - value);
    largest_in_ = name;
  }
  if (values_ > before) ++parameters_;
  return out;
}

std::string Rounded::text() const {
  if (values_ == 0) return {};
  return fmt::format(
      "{} values of {} parameters are rounded to {}; the largest error is {:.2g}, in {}",
      values_,
      parameters_,
      dtype_name(to_),
      largest_,
      quote(largest_in_));
}

}  // namespace tessera
