#include "heads.hpp"

#include <cmath>
#include <span>
#include <utility>

#include "tessera/base/hash.hpp"

namespace tessera {
namespace {

std::shared_ptr<Module> norm_of(std::string_view name,
                                const Component<Module>& component,
                                i64 features,
                                BuildContext& build) {
  if (component.type.empty()) return nullptr;
  return build.child(name, component, {{"hidden", features}}, ChildRows::own);
}

u64 hash_of(const RotaryAngles& angles) {
  const std::span<const double> all(angles.frequencies);
  return hash64(std::as_bytes(all), hash64(std::as_bytes(std::span(&angles.scale, 1))));
}

}  // namespace

Heads::Heads(const Parts& parts,
             const ops::AttentionShape& shape,
             i64 positions,
             BuildContext& build)
    : shape_(shape),
      q_norm_(norm_of("q_norm", parts.q_norm, shape.head_dim, build)),
      k_norm_(norm_of("k_norm", parts.k_norm, shape.head_dim, build)) {
  if (!parts.rotary.type.empty()) make_angles(parts.rotary, positions, build);
}

// One table on a rank for all layers whose features turn alike.
void Heads::make_angles(const Component<Rotary>& rotary, i64 positions, BuildContext& build) {
  if (shape_.head_dim % 2 != 0) {
    build.reject(
        "head_size",
        fmt::format("rotary positions turn pairs of features, {} is odd", shape_.head_dim));
  }
  const RotaryAngles angles =
      build.child("rotary", rotary, {{"head_size", shape_.head_dim}})->angles();
  const auto pairs = static_cast<i64>(angles.frequencies.size());
  require(2 * pairs <= shape_.head_dim,
          "{} pairs of features turn, and a head has {} features",
          pairs,
          shape_.head_dim);
  if (positions < build.sequence_length()) {
    build.reject(
        "positions",
        fmt::format("{} are fewer than the {} of a sample", positions, build.sequence_length()));
  }
  positions_ = build.slot("positions");
  turned_ = {.heads = shape_.heads + shape_.kv_heads,  // queries lie before keys
             .head_dim = shape_.head_dim,
             .interleaved = angles.interleaved};
  const std::string name = fmt::format("rotary.{:016x}.{}", hash_of(angles), positions);
  const auto value = [angles, pairs](i64 element) {
    const i64 pair = element % pairs, row = element / pairs;
    const double angle =
        static_cast<double>(row / 2) * angles.frequencies[static_cast<std::size_t>(pair)];
    return angles.scale * (row % 2 == 0 ? std::cos(angle) : std::sin(angle));
  };
  angles_ = &build.buffer({.name = name,
                           .shape = {positions, 2, pairs},
                           .saved = false,
                           .values = value,
                           .share = name});
}

Tensor Heads::prepared(Context& cx, Tensor qkv, const Bundle& bundle) const {
  if (q_norm_ != nullptr || k_norm_ != nullptr) qkv = normed(cx, std::exchange(qkv, {}));
  if (angles_ == nullptr) return qkv;
  return ops::rotary(cx, std::move(qkv), bundle[positions_], angles_->value, turned_);
}

Tensor Heads::normed(Context& cx, const Tensor& qkv) const {
  const i64 n = qkv.dim(0), d = shape_.head_dim, q = shape_.heads * d, kv = shape_.kv_heads * d;
  std::vector<Tensor> parts = ops::split(cx, qkv, {q, kv, kv});
  const auto norm = [&](const Module* module, Tensor& part) {
    if (module == nullptr) return;
    const i64 features = part.dim(1);
    const Tensor heads = ops::reshape(cx, part, {n * features / d, d});
    part = ops::reshape(cx, (*module)(cx, heads), {n, features});
  };
  norm(q_norm_.get(), parts[0]);
  norm(k_norm_.get(), parts[1]);
  return ops::join(cx, parts);
}

}  // namespace tessera
