#pragma once
#include <memory>
#include <string>
#include <vector>

#include "tessera/build.hpp"
#include "tessera/zigzag.hpp"

namespace tessera {

/// Keys that all heads of BERT have.
struct HeadKeys {
  i64 hidden = 0, vocab = 0, vocab_multiple = 128;
  std::string order = "pre";
  double init_std = 0.02;
  Component<Module> norm{"layernorm", {}};

  template <class Config>
  static void describe(Schema<Config>& s) {
    model_fields::hidden(s);
    model_fields::vocabulary(s);  // given to every head
    model_fields::norm_order(s);
    model_fields::init_std(s);
    s.slot("norm",
           &HeadKeys::norm,
           "normalisation after the last block, with model.order = \"pre\" only")
        .megatron("--normalization");
  }
};

/// The rows that the last block leaves, as heads of BERT take them: all rows of the microbatch on
/// every rank of the tensor group. Each of these ranks has a part of their gradient. So whatever
/// modules a head applies to them are children of ChildRows::own, and a loss that needs no other
/// rank is added by one of them (`share`).
class HeadRows {
 public:
  HeadRows(const HeadKeys& keys, BuildContext& build);

  /// Takes the slot "hidden": [rows, hidden], before the norm of order "pre".
  Tensor take(Context& cx, Bundle& bundle) const;
  /// After that norm, where there is one. Of any rows of these.
  Tensor normed(Context& cx, const Tensor& rows) const;
  /// The rows of each sample that this rank has at some of its own places:
  /// [samples, hidden] each, after the norm.
  std::vector<Tensor> at(Context& cx, const Tensor& rows, const std::vector<i64>& places) const;
  /// The first row of each sample, [samples, hidden], after the norm. One context-parallel rank has
  /// it; others have another row of the sample here.
  Tensor first_of_samples(Context& cx, const Tensor& rows) const;
  /// What all context-parallel ranks have of each sample, in the order of positions:
  /// [samples, positions · k] of x [samples, sequence() · k], on each of them.
  Tensor whole_samples(Context& cx, const Tensor& x) const;
  /// The entries of one place of each sample on this rank: [samples] of `entries` i64 [rows].
  Tensor ids_at(Context& cx, const Tensor& entries, i64 place) const;
  /// The sum of the context-parallel ranks' x, on each of them. As above, each rank differentiates
  /// its own part by the gradient that all of them have.
  Tensor sum_over_context(Context& cx, const Tensor& x) const;

  /// What a loss that every tensor-parallel rank has is multiplied by on this one: 1 on the first,
  /// 0 on others.
  double tensor_share() const { return tensor_share_; }
  /// The same of a loss of first_of_samples(), which only the first context-parallel rank has.
  double share() const { return first_context_ ? tensor_share_ : 0; }
  /// The place on this rank of a position of a sample; -1: another rank has it.
  i64 place_of(i64 position) const;
  /// Rows of one sample on this rank.
  i64 sequence() const { return sequence_; }
  /// Positions of a whole sample.
  i64 positions() const { return sequence_ * context_ranks_; }
  const TensorRegion& region() const { return region_; }

 private:
  i64 chunk() const { return sequence_ / zigzag::kHalves; }

  TensorRegion region_;
  ProcessGroup* context_;  // nullptr: the mesh has no communicators
  std::string name_;       // of collectives over it
  Slot hidden_;
  i64 sequence_, context_ranks_, context_rank_;
  double tensor_share_;
  bool first_context_;
  std::shared_ptr<Module> norm_;
};

/// A linear layer with a bias that is whole on every rank, for rows of HeadRows.
std::shared_ptr<Module> head_linear(std::string_view name,
                                    const Component<Module>& component,
                                    i64 in,
                                    i64 out,
                                    double init_std,
                                    BuildContext& build);

}  // namespace tessera
