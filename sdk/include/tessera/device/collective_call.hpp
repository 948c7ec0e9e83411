#pragma once
#include <string>

#include "tessera/base/collective.hpp"

namespace tessera {

/// What all members of a collective must agree on, or both ends of one transfer. Plain data, which
/// may lie in memory that ranks share.
struct TESSERA_API CollectiveCall {
  i64 bytes = 0;  ///< of the input, or of what is transferred
  CollectiveKind kind = CollectiveKind::barrier;
  DType dtype = DType::fp32;
  ReduceOp op = ReduceOp::sum;
  i32 root = 0;
  CallName name = {};

  static CollectiveCall of(const Collective& collective);
  /// One transfer of an exchange or an all_to_all: `name` is for text() alone.
  static CollectiveCall of(CollectiveKind kind, const TensorArg& tensor, CallName name = {});

  /// Transfers agree where kind, type and bytes are the same, all others where everything is.
  bool operator==(const CollectiveCall& other) const;
  /// Equal for calls that are equal.
  u64 hash() const;
  /// "all_reduce "x" of 400 bytes fp32, sum"; without a name "exchange of 400 bytes fp32".
  std::string text() const;
};

}  // namespace tessera
