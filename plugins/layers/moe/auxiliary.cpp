#include "auxiliary.hpp"

#include "tessera/error.hpp"

namespace tessera {

AuxiliaryLosses::AuxiliaryLosses(const AuxiliaryCoefficients& coefficients,
                                 i64 experts,
                                 i64 top_k,
                                 BuildContext& build)
    : coefficients_(coefficients),
      top_k_(top_k),
      samples_(build.batch().micro),
      sequence_(build.batch().sequence),
      context_ranks_(build.mesh().size(Axis::context)),
      data_ranks_(build.mesh().size(Axis::data)),
      region_(build.tensor_region()),
      name_(build.scope()),
      sequence_ranks_(build.mesh().find_tensor_context()),
      stage_(build.mesh().find_stage()) {
  const auto declare = [&](std::string_view name, double coefficient, LossWeight weight) {
    if (coefficient == 0) return LossTerm();
    return build.loss({.name = name,
                       .weight = weight,
                       .auxiliary = true,
                       .partial = {Axis::tensor, Axis::context, Axis::data}});
  };
  sequence_term_ = declare("moe_sequence_loss", coefficients.sequence, LossWeight::samples);
  microbatch_term_ = declare("moe_microbatch_loss", coefficients.microbatch, LossWeight::samples);
  global_term_ = declare("moe_global_loss", coefficients.global, LossWeight::samples);
  z_term_ = declare("moe_z_loss", coefficients.z, LossWeight::tokens);
  if (coefficients.global == 0) return;
  counted_ =
      &build.buffer({.name = "counted", .shape = {experts}, .dtype = DType::i64, .saved = false});
}

void AuxiliaryLosses::add(Context& cx, const Routing& routing) const {
  const AuxiliaryCoefficients& c = coefficients_;
  if (!cx.training() || (c.sequence == 0 && c.microbatch == 0 && c.global == 0 && c.z == 0)) return;
  require(routing.logits.defined(),
          "{}: its router has no logits, so there is nothing that an auxiliary loss could balance",
          name_);
  require(!routing.by_expert || (c.sequence == 0 && c.microbatch == 0 && c.global == 0),
          "{}: the experts of its router choose their rows, so their loads are equal: leave "
          "sequence_loss, microbatch_loss and global_loss out",
          name_);
  require(c.global == 0 || !cx.recomputing,
          "{}: global_loss counts the rows of a step in the order of the forward passes; a phase "
          "that runs again for the backward pass would count them twice: leave moe_router out of "
          "[recompute] scopes, or use sequence_loss",
          name_);
  if (c.z > 0) {
    cx.add_loss(z_term_, ops::z_loss(cx, routing.logits, c.z, cx.sink->inverse_weight(z_term_)));
  }
  const i64 length = sequence_ * context_ranks_, own = routing.logits.dim(0);
  balance(cx,
          routing,
          {"moe_sequence_loss",
           c.sequence,
           length,
           {.first = region_.index() * own, .positions = sequence_, .sequences = samples_},
           {},
           sequence_ranks_,
           sequence_term_});
  // Terms are means over samples: the term of a microbatch stands for all of its samples.
  const auto samples = static_cast<double>(samples_);
  const i64 rows = samples_ * length;
  balance(cx,
          routing,
          {"moe_microbatch_loss",
           c.microbatch * samples,
           rows,
           {},
           {},
           sequence_ranks_,
           microbatch_term_});
  const auto data_ranks = static_cast<double>(data_ranks_);
  balance(cx,
          routing,
          {"moe_global_loss",
           c.global * samples * data_ranks,
           rows * data_ranks_,
           {},
           counted_ != nullptr ? counted_->value : Tensor(),
           stage_,
           global_term_});
}

void AuxiliaryLosses::balance(Context& cx, const Routing& routing, const Balanced& over) const {
  if (over.coefficient == 0) return;
  require(over.group != nullptr, "{}: this mesh has no communicators", name_);
  const ops::BalanceSpec spec{.score = routing.score,
                              .top_k = top_k_,
                              .coefficient = over.coefficient,
                              .length = over.length,
                              .rows = over.rows,
                              .counted = over.counted};
  const Tensor weight = cx.sink->inverse_weight(over.term);
  cx.add_loss(over.term,
              ops::balance_loss(cx, routing.logits, {}, spec, weight, *over.group, over.name));
}

void AuxiliaryLosses::end_step(Context& cx) const {
  if (counted_ == nullptr) return;
  ops::run(cx, FillArgs{counted_->value.arg(), 0});
}

}  // namespace tessera
