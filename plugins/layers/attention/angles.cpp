#include "angles.hpp"

#include <cmath>
#include <span>
#include <string>

#include "tessera/base/hash.hpp"

namespace tessera {
namespace {

u64 hash_of(const RotaryAngles& angles) {
  const std::span<const double> all(angles.frequencies);
  return hash64(std::as_bytes(all), hash64(std::as_bytes(std::span(&angles.scale, 1))));
}

}  // namespace

Angles make_angles(const Component<Rotary>& rotary,
                   i64 head_size,
                   std::string_view size_key,
                   i64 positions,
                   BuildContext& build) {
  if (head_size % 2 != 0) {
    build.reject(size_key,
                 fmt::format("rotary positions turn pairs of features, {} is odd", head_size));
  }
  const RotaryAngles angles = build.child("rotary", rotary, {{"head_size", head_size}})->angles();
  const auto pairs = static_cast<i64>(angles.frequencies.size());
  require(2 * pairs <= head_size,
          "{} pairs of features turn, and a head has {} features",
          pairs,
          head_size);
  if (positions < build.sequence_length()) {
    build.reject(
        "positions",
        fmt::format("{} are fewer than the {} of a sample", positions, build.sequence_length()));
  }
  const std::string name = fmt::format("rotary.{:016x}.{}", hash_of(angles), positions);
  const auto value = [angles, pairs](i64 element) {
    const i64 pair = element % pairs, row = element / pairs;
    const double angle =
        static_cast<double>(row / 2) * angles.frequencies[static_cast<std::size_t>(pair)];
    return angles.scale * (row % 2 == 0 ? std::cos(angle) : std::sin(angle));
  };
  const Buffer& table = build.buffer({.name = name,
                                      .shape = {positions, 2, pairs},
                                      .saved = false,
                                      .values = value,
                                      .share = name});
  return {&table, 2 * pairs, angles.interleaved};
}

}  // namespace tessera
