#pragma once
#include <functional>
#include <vector>

#include "tessera/router.hpp"

namespace tessera {

/// Rows at their experts, with the weight that travels with each.
struct ExpertRows {
  Tensor x;        ///< [m, h]
  Tensor weights;  ///< [m], fp32 or wider
};

/// Work that does not depend on rows that are on their way. Can be called.
using Meanwhile = std::function<void()>;

/// Carries rows to the ranks of their experts and back. Plugin kind "dispatcher". Each step is
/// differentiable and belongs to a phase of the MoE layer, in this order:
///
///     moe_preprocess   counts, splits, order of the rows: fixed shapes, the host does not wait
///     moe_dispatch     rows to the experts' ranks
///     moe_experts      the layer computes on what dispatch returned
///     moe_combine      results back to the ranks of their rows
///     moe_unpermute    a token's results summed in the order of its choices: fixed shapes
///
/// Where several ranks have experts, moe_dispatch and moe_combine start exchanges: what they
/// return may still be under way (Bundle::leave_under_way).
///
/// State between steps is in bundle slots that the dispatcher made in its constructor; unpermute
/// leaves them empty. The experts of a layer are cut over the expert axis in order: with E experts
/// of ep ranks, rank p holds [p · E / ep, (p + 1) · E / ep), each cut over expert_tensor.
///
/// Rows of one expert follow each other in the order of their ranks in the "etp-ep" group, and in
/// the order of (row, choice) within a rank. Where a matrix is cut over expert_tensor, every rank
/// of that axis gets all rows of its experts, and what each computes is a part of the result:
/// combine and unpermute sum the parts in the order of the ranks.
///
/// The layer gives the fields `experts`, `top_k` and, where it pads to a capacity,
/// `rows_per_expert`: no rank has more rows for one expert, and exactly so many places are carried
/// from each rank to each expert, so that all shapes are fixed. A place without a row is zero, with
/// weight 0; it counts as a row of its expert, and stands anywhere among them. One rank alone is
/// given `rows_per_expert` wherever experts × rows_per_expert rows are fewer than choices, and need
/// hold no more.
class TESSERA_API TokenDispatcher : public Identified {
 public:
  static constexpr std::string_view kKind = "dispatcher";
  using Arguments = BuildContext;

  ~TokenDispatcher() override;
  /// x [n, h] of this rank and what the router decided for them. Returns what dispatch takes, in a
  /// form of the dispatcher's own.
  ExpertRows preprocess(Context& cx, Bundle& bundle, const Tensor& x, const Routing& routing) const;
  /// Host slots that dispatch and combine read, for their phases.
  std::vector<HostSlot> reads() const;
  /// Do the shapes of what dispatch returns depend on the routing?
  Shapes shapes() const;
  /// Sends what preprocess returned, and returns the rows of this rank's experts, expert after
  /// expert. Calls `meanwhile` once, while rows are under way where it can, and records it so that
  /// backward does the same.
  ExpertRows dispatch(Context& cx,
                      Bundle& bundle,
                      const ExpertRows& rows,
                      const Meanwhile& meanwhile) const;
  /// i64 [local experts]: how many of the rows that dispatch returned are each expert's; rows after
  /// the last one's are padding. Known from preprocess on, until unpermute.
  Tensor counts(const Bundle& bundle) const;
  /// Sends results y [m, h] of the experts to the ranks of their rows. `meanwhile` as in dispatch.
  Tensor combine(Context& cx, Bundle& bundle, const Tensor& y, const Meanwhile& meanwhile) const;
  /// What combine returned, summed for each token: [n, h].
  Tensor unpermute(Context& cx, Bundle& bundle, const Tensor& y) const;

 private:
  virtual ExpertRows do_preprocess(Context& cx,
                                   Bundle& bundle,
                                   const Tensor& x,
                                   const Routing& routing) const = 0;
  virtual std::vector<HostSlot> do_reads() const = 0;
  virtual Shapes do_shapes() const = 0;
  virtual ExpertRows do_dispatch(Context& cx,
                                 Bundle& bundle,
                                 const ExpertRows& rows,
                                 const Meanwhile& meanwhile) const = 0;
  virtual Tensor do_counts(const Bundle& bundle) const = 0;
  virtual Tensor do_combine(Context& cx,
                            Bundle& bundle,
                            const Tensor& y,
                            const Meanwhile& meanwhile) const = 0;
  virtual Tensor do_unpermute(Context& cx, Bundle& bundle, const Tensor& y) const = 0;
};

}  // namespace tessera
