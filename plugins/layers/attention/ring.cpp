// Ring attention (Liu et al. 2023): keys and values travel around the ranks while each computes
// with those it has. The zigzag order of chunks gives every rank the same work at every step.
#include <array>

#include "queries.hpp"

namespace tessera {
namespace {

/// Keys and values of one rank, by half, on their way around.
class Ring {
 public:
  explicit Ring(const ContextAttention& attention)
      : group_(*attention.group), names_(*attention.names) {}
  int size() const { return group_.size(); }
  const ContextNames& names() const { return names_; }
  /// The rank whose keys are here after `step` hops.
  i64 owner(int step) const { return (group_.index() - step + size()) % size(); }

  struct Hop {
    Tensor arriving;
    Work work;
    Tensor arrive(Context& cx) {
      work.wait(*cx.stream);
      return std::move(arriving);
    }
  };
  /// Starts to hand on what is here.
  Hop hand_on(Context& cx, const Tensor& here, std::string_view name) const {
    Hop hop{cx.empty(here.shape(), here.dtype()), {}};
    const int next = (group_.index() + 1) % size(), last = (group_.index() + size() - 1) % size();
    hop.work = group_.exchange(*cx.stream, {{next, here}}, {{last, hop.arriving}}, name);
    return hop;
  }

 private:
  ProcessGroup& group_;
  const ContextNames& names_;
};

Keys keys_of(const PackedLayout& layout, const Tensor& blocks, i64 owner, int half) {
  const i64 at = half * layout.half_elements(), length = layout.chunk();
  return {layout.keys(blocks, at, length),
          layout.values(blocks, at + layout.key_elements(length), length),
          zigzag::chunk(layout.ranks(), owner, half) * length};
}

/// Calls body(query half, key half, keys) for each pair of halves in which a query of this rank may
/// attend to a key of `owner`.
template <class Body>
void for_pairs(const Queries& queries, const Tensor& blocks, i64 owner, Body&& body) {
  for (int key_half = 0; key_half < zigzag::kHalves; ++key_half) {
    const Keys keys = keys_of(queries.layout(), blocks, owner, key_half);
    for (int half = 0; half < zigzag::kHalves; ++half) {
      if (queries.reach(half, keys.first)) body(half, key_half, keys);
    }
  }
}

// The gradients of keys and values follow them one hop later and end where they belong: every rank
// adds its part while the keys are there. 16-bit ones travel as fp32 and are rounded at the end.
Tensor backward(Context& cx, const Queries& queries, const Ring& ring, const Tensor& gradient) {
  QueryGradients gradients(cx, queries, gradient);
  Tensor keys = queries.layout().pack_keys(cx, queries.projections());
  Ring::Hop key_gradients;
  for (int step = 0; step < ring.size(); ++step) {
    Ring::Hop next;
    if (step + 1 < ring.size()) next = ring.hand_on(cx, keys, ring.names().keys);
    const Tensor here = cx.empty(keys.shape(), sum_dtype(keys.dtype()));
    std::vector<KeyGradientSums> parts;
    parts.reserve(zigzag::kHalves);
    std::array<bool, zigzag::kHalves> seen{};
    for (int half = 0; half < zigzag::kHalves; ++half) {
      const Tensor all = here.slice(0, half, 1).view({here.dim(1)});
      const i64 of_keys = queries.layout().key_elements(queries.layout().chunk());
      parts.push_back({{all.slice(0, 0, of_keys), keys.dtype()},
                       {all.slice(0, of_keys, all.dim(0) - of_keys), keys.dtype()}});
    }
    for_pairs(queries, keys, ring.owner(step), [&](int half, int key_half, const Keys& pair) {
      gradients.differentiate(cx, half, pair, parts[static_cast<std::size_t>(key_half)]);
      seen[static_cast<std::size_t>(key_half)] = true;
    });
    Tensor sum = here;
    if (step > 0) {
      sum = key_gradients.arrive(cx);
      for (int half = 0; half < zigzag::kHalves; ++half) {
        if (!seen[static_cast<std::size_t>(half)]) continue;
        const TensorArg total = sum.slice(0, half, 1).arg();
        ops::run(cx, AddArgs{total, here.slice(0, half, 1).arg(), total});
      }
    }
    key_gradients = ring.hand_on(cx, sum, ring.names().key_gradients);
    keys = next.arrive(cx);
  }
  return gradients.projections(cx, key_gradients.arrive(cx));
}

}  // namespace

Tensor ring_attention(Context& cx,
                      const Tensor& qkv,
                      const Tensor& rows,
                      const ContextAttention& attention) {
  const Ring ring(attention);
  Queries queries(cx, qkv, rows, attention);
  Tensor keys = queries.layout().pack_keys(cx, qkv);
  for (int step = 0; step < ring.size(); ++step) {
    Ring::Hop next;
    if (step + 1 < ring.size()) next = ring.hand_on(cx, keys, ring.names().keys);
    for_pairs(queries, keys, ring.owner(step), [&](int half, int, const Keys& pair) {
      queries.attend(cx, half, pair);
    });
    keys = next.arrive(cx);
  }
  Tensor out = queries.result(cx);
  if (!cx.recording()) return out;
  cx.tape->record("ring_attention",
                  std::array{qkv},
                  std::array{&out},
                  [queries = std::move(queries), ring](Context& c, Gradients& g) {
                    g.input(0, backward(c, queries, ring, g.output(0)));
                  });
  return out;
}

}  // namespace tessera
