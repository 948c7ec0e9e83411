#pragma once
#include "tessera/base/operation_rules.hpp"

namespace tessera {

/// The dtype of means, maxima and sums of exponentials: the data's, never narrower than fp32.
inline DType statistic_dtype(DType data) { return data == DType::fp64 ? DType::fp64 : DType::fp32; }

/// The dtype that rules call the data's: that of the first tensor there is of the rule `data`, or
/// of the first statistic where an operation has no data. fp32 where neither is there.
DType data_dtype(const TensorRule* rules, const TensorArg* tensors, int count);

/// The dtype that a tensor must have; where its rule leaves a choice, its own if that is allowed.
DType expected_dtype(TypeRule rule, DType own, DType data);

}  // namespace tessera
