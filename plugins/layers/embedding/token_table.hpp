#pragma once
#include "tessera/build.hpp"

namespace tessera {

/// The table of tokens, its vocabulary cut over the tensor group.
class TokenTable {
 public:
  TokenTable(i64 vocab, i64 vocab_multiple, i64 hidden, double init_std, BuildContext& build);
  /// [own rows, hidden] of tokens i64 [rows].
  Tensor look_up(Context& cx, const Tensor& tokens) const;

 private:
  TensorRegion region_;
  Parameter* weight_;
  i64 first_;
};

/// A table that every rank has whole, applied to its own rows.
Parameter& whole_table(
    std::string_view name, i64 rows, i64 hidden, double init_std, BuildContext& build);

}  // namespace tessera
