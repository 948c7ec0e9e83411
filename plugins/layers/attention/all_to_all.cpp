// Heads for sequence (Jacobs et al. 2023, "DeepSpeed Ulysses"): each rank gets all positions of
// some of the heads, computes attention as one rank would, and gives the results back.
#include <array>
#include <vector>

#include "context_attention.hpp"
#include "packed.hpp"
#include "tessera/zigzag.hpp"

namespace tessera {
namespace {

/// Turns rows of this rank's positions with all heads into rows of all positions, in their order,
/// with this rank's part of each section of features; and back.
class HeadExchange {
 public:
  HeadExchange(const ContextAttention& attention,
               std::vector<i64> sections,
               const std::string& name)
      : group_(attention.group),
        name_(&name),
        batch_(attention.shape.batch),
        sequence_(attention.shape.sequence),
        sections_(std::move(sections)) {
    for (const i64 section : sections_) width_ += section / group_->size();
  }

  Tensor to_heads(Context& cx, const Tensor& x) const {
    const Tensor sent = parts(cx, x.dtype()), received = parts(cx, x.dtype());
    for_sections([&](const TensorArg& part, const TensorArg& at) { copy(cx, at, part); }, sent, x);
    swap(cx, sent, received);
    Tensor y = cx.empty({batch_ * sequence_ * group_->size(), width_}, x.dtype());
    for_chunks(
        [&](const TensorArg& part, const TensorArg& at) { copy(cx, part, at); }, received, y);
    return y;
  }
  Tensor to_positions(Context& cx, const Tensor& y) const {
    const Tensor sent = parts(cx, y.dtype()), received = parts(cx, y.dtype());
    for_chunks([&](const TensorArg& part, const TensorArg& at) { copy(cx, at, part); }, sent, y);
    swap(cx, sent, received);
    Tensor x = cx.empty({batch_ * sequence_, width_ * group_->size()}, y.dtype());
    for_sections(
        [&](const TensorArg& part, const TensorArg& at) { copy(cx, part, at); }, received, x);
    return x;
  }

  /// What rows [n] of all positions have: row ids, limits.
  Tensor all_rows(Context& cx, const Tensor& rows, std::string_view name) const {
    const Tensor parts = cx.empty({group_->size(), rows.elements(), 1}, rows.dtype());
    group_->all_gather(*cx.stream, rows, parts, name).wait(*cx.stream);
    Tensor all = cx.empty({rows.elements() * group_->size(), 1}, rows.dtype());
    for_chunks([&](const TensorArg& part, const TensorArg& at) { copy(cx, part, at); }, parts, all);
    return all.view({all.elements()});
  }

 private:
  /// [peer, row, feature]
  Tensor parts(Context& cx, DType dtype) const {
    return cx.empty({group_->size(), batch_ * sequence_, width_}, dtype);
  }
  void swap(Context& cx, const Tensor& sent, const Tensor& received) const {
    std::vector<ProcessGroup::Part> sends, receives;
    for (int peer = 0; peer < group_->size(); ++peer) {
      sends.push_back({peer, sent.slice(0, peer, 1)});
      receives.push_back({peer, received.slice(0, peer, 1)});
    }
    group_->all_to_all(*cx.stream, sends, receives, *name_).wait(*cx.stream);
  }
  // Both call move(of the parts, the same elsewhere).
  template <class Move>
  void for_sections(Move&& move, const Tensor& parts, const Tensor& x) const {
    const i64 rows = batch_ * sequence_, row = x.strides()[0];
    for (i64 peer = 0; peer < group_->size(); ++peer) {
      i64 in_part = peer * rows * width_, in_x = 0;
      for (const i64 section : sections_) {
        const i64 features = section / group_->size();
        move(strided(parts, in_part, {{rows, width_}, {features, 1}}),
             strided(x, in_x + peer * features, {{rows, row}, {features, 1}}));
        in_part += features;
        in_x += section;
      }
    }
  }
  template <class Move>
  void for_chunks(Move&& move, const Tensor& parts, const Tensor& y) const {
    const i64 ranks = group_->size(), length = sequence_ / zigzag::kHalves;
    const i64 width = parts.dim(2), row = y.strides()[0];
    for (i64 peer = 0; peer < ranks; ++peer) {
      for (i64 half = 0; half < zigzag::kHalves; ++half) {
        const i64 chunk = zigzag::chunk(ranks, peer, half);
        move(strided(parts,
                     (peer * batch_ * sequence_ + half * length) * width,
                     {{batch_, sequence_ * width}, {length, width}, {width, 1}}),
             strided(y,
                     chunk * length * row,
                     {{batch_, sequence_ * ranks * row}, {length, row}, {width, 1}}));
      }
    }
  }

  ProcessGroup* group_;
  const std::string* name_;
  i64 batch_, sequence_;
  std::vector<i64> sections_;
  i64 width_ = 0;  ///< features of one rank's heads
};

Tensor record(Context& cx,
              const Tensor& x,
              Tensor y,
              const HeadExchange& exchange,
              Tensor (HeadExchange::*back)(Context&, const Tensor&) const) {
  if (!cx.recording()) return y;
  cx.tape->record(
      "all_to_all_attention",
      std::array{x},
      std::array{&y},
      [exchange, back](Context& c, Gradients& g) { g.input(0, (exchange.*back)(c, g.output(0))); });
  return y;
}

}  // namespace

Tensor all_to_all_attention(Context& cx,
                            const Tensor& qkv,
                            const Tensor& rows,
                            const ContextAttention& attention) {
  const i64 ranks = attention.group->size(), here = attention.group->index();
  ops::AttentionShape shape = attention.shape;
  const HeadExchange projections(
      attention,
      {shape.query_features(), shape.key_features(), shape.value_features()},
      attention.names->heads);
  const HeadExchange results(attention, {shape.result_features()}, attention.names->positions);
  shape.sequence *= ranks;
  shape.heads /= ranks;
  shape.kv_heads /= ranks;
  AttentionSpec spec = attention.spec;
  spec.head_offset += here * shape.heads;
  const auto of_all = [&](const Tensor& own, const std::string& name) {
    return own.defined() ? projections.all_rows(cx, own, name) : Tensor();
  };
  const ops::AttentionLimits& limits = attention.limits;
  const ops::AttentionLimits all_limits = {of_all(limits.first, attention.names->first),
                                           of_all(limits.last, attention.names->last)};
  Tensor all_rows;
  if (spec.dropout > 0 && cx.training()) all_rows = of_all(rows, attention.names->rows);
  const Tensor mine =
      record(cx, qkv, projections.to_heads(cx, qkv), projections, &HeadExchange::to_positions);
  const Tensor out = ops::attention(cx, mine, all_rows, shape, spec, all_limits);
  return record(cx, out, results.to_positions(cx, out), results, &HeadExchange::to_heads);
}

}  // namespace tessera
