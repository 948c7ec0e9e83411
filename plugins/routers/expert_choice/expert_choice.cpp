#include <algorithm>

#include "tessera/error.hpp"
#include "tessera/moe_ops.hpp"
#include "tessera/plugin.hpp"
#include "tessera/process_group.hpp"
#include "tessera/router.hpp"

namespace tessera {

/// Each expert takes its best rows of each sequence (Zhou et al. 2022), wherever the ranks of
/// tensor and context parallelism hold them. All experts have equal loads; a token may have none,
/// or all of them. Whether a row is taken depends on the later ones of its sequence, so this is not
/// for models whose loss wants causality.
class ExpertChoice final : public Router {
 public:
  struct Config {
    i64 hidden = 0, experts = 0, top_k = 0;
    double init_std = 0.02;
    static void describe(Schema<Config>& s) {
      s.field("hidden", &Config::hidden, "features").given().at_least(1).at_most(kMostFeatures);
      s.field("experts", &Config::experts, "experts of the layer")
          .given()
          .at_least(1)
          .at_most(kMostExperts);
      s.field("top_k", &Config::top_k, "experts that a token has on average")
          .given()
          .at_least(1)
          .at_most(kMostExperts);
      model_fields::init_std(s);
    }
  };

  ExpertChoice(const Config& config, BuildContext& build)
      : name_(build.scope()),
        region_(build.tensor_region()),
        context_(build.mesh().find_group(Axis::context)),
        context_ranks_(build.mesh().size(Axis::context)),
        context_index_(build.mesh().coordinate(Axis::context)),
        length_(build.sequence_length()),
        positions_(build.slot("positions")) {
    if (config.experts > RouterSpec::kMaxExperts) {
      build.reject("experts",
                   fmt::format("{} experts are more than a router can have, {}",
                               config.experts,
                               RouterSpec::kMaxExperts));
    }
    rows_ = std::min(length_, (length_ * config.top_k + config.experts - 1) / config.experts);
    weight_ = &build.parameter({.name = "weight",
                                .shape = {config.experts, config.hidden},
                                .init = Init::gaussian(config.init_std),
                                .placement = region_.per_split_row()});
  }

  Routing do_route(Context& cx, Bundle& bundle, const Tensor& x) const override {
    const Tensor logits = ops::linear(cx, x, *weight_, nullptr);
    ExpertChoiceArgs args;
    // All rows of this rank's microbatch, then those of the ranks that share its sequences.
    const Tensor own = gathered(cx, logits.with_var({}), region_.size(), [&]() -> ProcessGroup& {
      return region_.group();
    });
    const Tensor all =
        gathered(cx, own, context_ranks_, [&]() -> ProcessGroup& { return context(); });
    const Tensor positions = gathered(
        cx, bundle[positions_], context_ranks_, [&]() -> ProcessGroup& { return context(); });
    args.logits = all.arg();
    args.positions = positions.arg();
    args.rows = rows_;
    args.length = length_;
    args.parts = context_ranks_;
    args.n = logits.dim(0);
    args.seen = std::min(cx.seen, length_);
    args.first = context_index_ * own.dim(0) + region_.index() * args.n;
    const Tensor experts = ops::run(cx, args)[0];
    const RouterSpec spec{.score = RouterScore::softmax_before};
    return {.experts = experts,
            .weights = ops::router_weights(cx, logits, experts, spec),
            .logits = logits,
            .by_expert = true};
  }
  i64 do_choices(i64) const override { return weight_->logical[0]; }
  i64 do_rows_per_sequence() const override { return rows_; }

 private:
  ProcessGroup& context() const {
    require(context_ != nullptr, "{}: this mesh has no communicators", name_);
    return *context_;
  }
  // The members' tensors in group order along dimension 0; `group` is asked where there are
  // several.
  template <class Group>
  Tensor gathered(Context& cx, const Tensor& part, i64 ranks, Group&& group) const {
    if (ranks == 1) return part;
    Shape shape;
    for (int d = 0; d < part.rank(); ++d)
      shape.push_back(d == 0 ? ranks * part.dim(0) : part.dim(d));
    const Tensor whole = cx.empty(shape, part.dtype());
    group().all_gather(*cx.stream, part, whole, name_).wait(*cx.stream);
    return whole;
  }

  std::string name_;
  TensorRegion region_;
  ProcessGroup* context_;
  i64 context_ranks_, context_index_, length_, rows_ = 0;
  Slot positions_;
  Parameter* weight_ = nullptr;
};

}  // namespace tessera

TESSERA_PLUGIN(expert_choice_router, "0.1.0", "Each expert chooses its tokens") {
  registrar.add<tessera::Router, tessera::ExpertChoice>(
      "expert_choice",
      "each expert takes its best rows of each sequence; a row depends on later ones: not causal");
}
