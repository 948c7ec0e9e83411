#include "mutants_support.hpp"

#include <array>
#include <cmath>

#include "tessera/build.hpp"
#include "tessera/collectives.hpp"
#include "tessera/ops.hpp"
#include "tessera/process_group.hpp"
#include "tessera/zigzag.hpp"

namespace tessera::testing {

namespace {

// Every rank gathers all rows, brings them into the order of positions, computes attention of all
// of them, and keeps its own rows. The dropout mask is one of global heads, or by mistake on every
// rank of the tensor group that of the first.
class MutantAttention final : public Layer {
 public:
  struct Config {
    i64 hidden = 0, heads = 0, layers = 1;
    double dropout = 0, init_std = 0.02;
    std::string mistake = "none";
    Component<Module> qkv{"column_linear", {}}, proj{"row_linear", {}};
    static void describe(Schema<Config>& s) {
      s.field("hidden", &Config::hidden, "features").from("model.hidden");
      s.field("heads", &Config::heads, "heads").from("model.heads");
      s.field("layers", &Config::layers, "for initial weights").from("model.layers");
      s.field("dropout", &Config::dropout, "of probabilities").from("model.dropout");
      s.field("init_std", &Config::init_std, "initial weights").from("model.init_std");
      describe_mistake(s,
                       {"same_mask_on_every_rank",
                        "second_half_not_reversed",
                        "mask_by_local_positions",
                        "own_key_gradients_only"});
      s.slot("qkv", &Config::qkv, "projection in");
      s.slot("proj", &Config::proj, "projection out");
    }
  };

  MutantAttention(const Config& config, BuildContext& build)
      : name_(build.scope()),
        mistake_(config.mistake),
        hidden_(build.slot("hidden")),
        row_ids_(build.slot("row_ids")),
        ranks_(build.mesh().size(Axis::context)),
        batch_(build.batch().micro),
        sequence_(build.batch().sequence) {
    const i64 h = config.hidden, heads = config.heads / build.mesh().size(Axis::tensor);
    const double scale = std::sqrt(2.0 * static_cast<double>(config.layers));
    qkv_ = build.child(
        "qkv", config.qkv, {{"in", h}, {"out", 3 * h}, {"sections", Value::Array{h, h, h}}});
    proj_ = build.child(
        "proj", config.proj, {{"in", h}, {"out", h}, {"init_std", config.init_std / scale}});
    shape_ = {batch_, sequence_ * ranks_, heads, heads, h / config.heads};
    spec_.scale = 1 / std::sqrt(static_cast<double>(shape_.head_dim));
    spec_.causal = true;
    spec_.dropout = config.dropout;
    spec_.key = build.random_site("attention");
    if (mistake_ == "same_mask_on_every_rank") return;
    spec_.head_offset = build.mesh().coordinate(Axis::tensor) * heads;
  }

  std::vector<Phase> do_phases() override {
    return {{.scope = "attn", .run = [this](Context& cx, Bundle& bundle) {
               ProcessGroup& group = cx.mesh->group(Axis::context);
               const Tensor qkv = (*qkv_)(cx, bundle[hidden_]);
               const Tensor all = in_order(cx, gather(cx, qkv, group), true);
               const Tensor result =
                   ops::attention(cx, all, all_rows(cx, bundle[row_ids_], group), shape_, spec_);
               const i64 n = batch_ * sequence_;
               const Tensor mine =
                   ops::slice(cx, in_order(cx, result, false), 0, group.index() * n, n);
               bundle[hidden_] = (*proj_)(cx, mine);
             }}};
  }

 private:
  Tensor gather(Context& cx, const Tensor& x, ProcessGroup& group) const {
    if (mistake_ != "own_key_gradients_only") return collectives::gather_rows(cx, x, group, name_);
    const i64 n = x.dim(0), first = group.index() * n;
    Tensor y = cx.empty({n * ranks_, x.dim(1)}, x.dtype());
    group.all_gather(*cx.stream, x, y, name_).wait(*cx.stream);
    if (!cx.recording()) return y;
    cx.tape->record("gather", std::array{x}, std::array{&y}, [n, first](Context& c, Gradients& g) {
      CopyArgs args{g.output(0).slice(0, first, n).arg(), {}};
      g.input(0, ops::run(c, args)[0]);
    });
    return y;
  }

  i64 chunk(i64 rank, i64 half) const {
    if (mistake_ == "second_half_not_reversed") return half * ranks_ + rank;
    if (mistake_ == "mask_by_local_positions") return zigzag::kHalves * rank + half;
    return zigzag::chunk(ranks_, rank, half);
  }

  // [rank, sample, position, feature] as [sample, position, feature], or back.
  Tensor reordered(Context& cx, const Tensor& x, bool by_position) const {
    const i64 width = x.dim(1), length = sequence_ / zigzag::kHalves;
    Tensor y = cx.empty(x.shape(), x.dtype());
    const Tensor& ranks = by_position ? x : y;
    const Tensor& samples = by_position ? y : x;
    const Tensor by_rank = ranks.view({ranks_, batch_, sequence_, width});
    const Tensor by_sample = samples.view({batch_, sequence_ * ranks_, width});
    for (i64 rank = 0; rank < ranks_; ++rank) {
      for (i64 half = 0; half < zigzag::kHalves; ++half) {
        const Tensor part = by_rank.slice(0, rank, 1).slice(2, half * length, length);
        const Tensor place = by_sample.slice(1, chunk(rank, half) * length, length);
        TensorArg here = part.arg();
        here.rank = 3;  // without the dimension of the rank
        for (int d = 0; d < 3; ++d) {
          here.shape[d] = here.shape[d + 1];
          here.strides[d] = here.strides[d + 1];
        }
        CopyArgs args{by_position ? here : place.arg(), by_position ? place.arg() : here};
        ops::run(cx, args);
      }
    }
    return y;
  }

  Tensor in_order(Context& cx, const Tensor& x, bool by_position) const {
    Tensor y = reordered(cx, x, by_position);
    if (!cx.recording()) return y;
    cx.tape->record(
        "in_order", std::array{x}, std::array{&y}, [this, by_position](Context& c, Gradients& g) {
          g.input(0, reordered(c, g.output(0), !by_position));
        });
    return y;
  }

  Tensor all_rows(Context& cx, const Tensor& rows, ProcessGroup& group) const {
    const Tensor all = cx.empty({rows.elements() * ranks_, 1}, rows.dtype());
    group.all_gather(*cx.stream, rows, all, name_).wait(*cx.stream);
    return reordered(cx, all, true).view({all.elements()});
  }

  std::string name_, mistake_;
  Slot hidden_, row_ids_;
  i64 ranks_, batch_, sequence_;  // positions on this rank
  ops::AttentionShape shape_;
  AttentionSpec spec_;
  std::shared_ptr<Module> qkv_, proj_;
};

}  // namespace

void register_attention_mutant(Registrar& registrar) {
  registrar.add<Layer, MutantAttention>("mutant_attention", "attention");
}

}  // namespace tessera::testing
