#pragma once
#include <string>
#include <string_view>

#include "tessera/moe_ops.hpp"
#include "tessera/router.hpp"

namespace tessera {

/// Losses that keep the experts of a layer equally loaded, and its router's logits small. Each is
/// added to the total loss with its coefficient, any of them together; 0 leaves one out.
struct AuxiliaryCoefficients {
  double sequence = 0;    ///< of the loads of each sequence
  double microbatch = 0;  ///< of those of a microbatch on the ranks of tensor × context
  double global = 0;      ///< of those of all ranks of a stage, since the step began
  double z = 0;           ///< mean of the squared log-sum-exp of logits
};

/// What a layer adds to the total loss for its router's decisions, in training only. Every rank
/// adds the part of its rows; gradients are plain sums.
class AuxiliaryLosses {
 public:
  AuxiliaryLosses(const AuxiliaryCoefficients& coefficients,
                  i64 experts,
                  i64 top_k,
                  BuildContext& build);

  /// Adds the losses of rows that one call of the router has decided on.
  void add(Context& cx, const Routing& routing) const;
  void end_step(Context& cx) const;

 private:
  /// Where the rows are whose loads are balanced, and what the loss is a mean over.
  struct Balanced {
    std::string_view name;
    double coefficient;
    i64 length;              // rows, on all ranks together
    SequenceRows rows = {};  // those of this rank
    Tensor counted = {};     // earlier ones, on this rank
    ProcessGroup* group;
    LossTerm term;
  };
  void balance(Context& cx, const Routing& routing, const Balanced& over) const;

  AuxiliaryCoefficients coefficients_;
  i64 top_k_, samples_, sequence_, context_ranks_, data_ranks_;
  TensorRegion region_;
  std::string name_;
  ProcessGroup *sequence_ranks_, *stage_;  // nullptr: the mesh has no communicators
  LossTerm sequence_term_, microbatch_term_, global_term_, z_term_;
  Buffer* counted_ = nullptr;  // of the rows since the step began
};

}  // namespace tessera
