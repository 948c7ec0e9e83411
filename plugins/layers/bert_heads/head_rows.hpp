#pragma once
#include <memory>
#include <string>

#include "tessera/build.hpp"

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
    s.slot("norm", &HeadKeys::norm, "normalisation after the last block, of order = \"pre\" only")
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
  /// The first row of each sample, [samples, hidden], after the norm. One context-parallel rank has
  /// it; others have another row of the sample here.
  Tensor first_of_samples(Context& cx, const Tensor& rows) const;
  /// What a loss of first_of_samples() is multiplied by on this rank: 1 on one of those that have a
  /// sample, 0 on the others.
  double share() const { return share_; }
  /// Rows of one sample on this rank.
  i64 sequence() const { return sequence_; }
  const TensorRegion& region() const { return region_; }

 private:
  TensorRegion region_;
  Slot hidden_;
  i64 sequence_;
  double share_;
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
