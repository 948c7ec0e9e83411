#pragma once
#include "tessera/build.hpp"
#include "tessera/ops/router.hpp"

namespace tessera {

/// What a router decided for the rows of one microbatch on this rank.
struct Routing {
  /// i32 [n, Router::choices()]: the expert of each choice, in the order in which results are
  /// summed. One outside [0, experts) means that the choice is dropped: the token gets nothing for
  /// it.
  Tensor experts;
  /// [n, choices], fp32 or wider, tracked: the weight of each choice; of dropped ones 0.
  Tensor weights;
  /// [n, experts], tracked: what auxiliary losses are computed from; undefined: the router has
  /// nothing to balance, and a layer that is to balance it refuses.
  Tensor logits = {};
  RouterScore score = RouterScore::softmax;  ///< how the shares of experts follow from `logits`
  /// Have the experts chosen the rows? Then column e is expert e or dropped, and every expert has
  /// equally many rows of each sequence.
  bool by_expert = false;
  /// How many of the n rows one expert takes where loads are even and none takes more than it may:
  /// what a dry run assumes. Set by the layer; 0: as many as choose it.
  i64 limit = 0;
};

/// Chooses experts for rows. Plugin kind "router". The layer that has experts gives its fields:
/// `hidden`, `experts`, `top_k`. A router declares its own parameters, which are applied to split
/// rows (TensorRegion::per_split_row).
class TESSERA_API Router : public Identified {
 public:
  static constexpr std::string_view kKind = "router";
  static constexpr bool kStructural = true;
  using Arguments = BuildContext;

  ~Router() override;
  /// x [n, hidden]: rows of this rank; under tensor parallelism each rank of the group has others
  /// (TensorRegion::split_rows).
  Routing operator()(Context& cx, Bundle& bundle, const Tensor& x) const;
  /// Columns of Routing::experts, where a token is meant to go to `top_k` experts.
  i64 choices(i64 top_k) const;
  /// Where the experts choose (Routing::by_expert): the rows of each sequence, on all of its ranks
  /// together, that every expert takes. 0: rows choose, and loads depend on them.
  i64 rows_per_sequence() const;
  /// Does what it decides for a row depend on that row alone, outside of training? Then a layer
  /// with this router may say Phase::incremental.
  bool incremental() const;
  /// Called from the layer's end_step.
  void end_step(Context&);

 private:
  virtual Routing do_route(Context& cx, Bundle& bundle, const Tensor& x) const = 0;
  virtual i64 do_choices(i64 top_k) const { return top_k; }
  virtual i64 do_rows_per_sequence() const { return 0; }
  virtual bool do_incremental() const { return false; }
  virtual void do_end_step(Context&) {}
};

}  // namespace tessera
