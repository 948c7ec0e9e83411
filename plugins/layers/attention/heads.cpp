#include "heads.hpp"

#include <utility>

namespace tessera {
namespace {

std::shared_ptr<Module> norm_of(std::string_view name,
                                const Component<Module>& component,
                                i64 features,
                                BuildContext& build) {
  if (component.type.empty()) return nullptr;
  return build.child(name, component, {{"hidden", features}}, ChildRows::own);
}

}  // namespace

Heads::Heads(const Parts& parts,
             const ops::AttentionShape& shape,
             i64 positions,
             BuildContext& build)
    : shape_(shape),
      q_norm_(norm_of("q_norm", parts.q_norm, shape.head_dim, build)),
      k_norm_(norm_of("k_norm", parts.k_norm, shape.head_dim, build)) {
  if (parts.rotary.type.empty()) return;
  angles_ = make_angles(parts.rotary, shape.head_dim, "head_size", positions, build);
  positions_ = build.slot("positions");
}

Tensor Heads::prepared(Context& cx, Tensor qkv, const Bundle& bundle) const {
  if (q_norm_ != nullptr || k_norm_ != nullptr) qkv = normed(cx, std::exchange(qkv, {}));
  if (angles_.table == nullptr) return qkv;
  return ops::rotary(cx,
                     std::move(qkv),
                     bundle[positions_],
                     angles_.table->value,
                     {.heads = shape_.heads + shape_.kv_heads,  // queries lie before keys
                      .head_dim = shape_.head_dim,
                      .interleaved = angles_.interleaved});
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
