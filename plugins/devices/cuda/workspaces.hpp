#pragma once
// Which operations have a workspace. Included by kernels.hpp, so that nobody instantiates the
// general Workspace of one of them.
#include "kernels.hpp"

namespace tessera {

struct AttentionArgs;
struct AttentionBackwardArgs;
struct BalanceLossArgs;
struct ColumnSumArgs;
struct ExpertChoiceArgs;
struct ExpertCountsArgs;
struct KeepChoicesArgs;
struct LayerNormWeightArgs;
struct SortByExpertArgs;
struct SumSquaresArgs;
struct ZLossArgs;

namespace cuda {

template <>
i64 Workspace<AttentionArgs>::bytes(const AttentionArgs& args);  // 0, for heads that it can have
template <>
i64 Workspace<AttentionBackwardArgs>::bytes(const AttentionBackwardArgs& args);
template <>
i64 Workspace<BalanceLossArgs>::bytes(const BalanceLossArgs& args);
template <>
i64 Workspace<ColumnSumArgs>::bytes(const ColumnSumArgs& args);
template <>
i64 Workspace<ExpertChoiceArgs>::bytes(const ExpertChoiceArgs& args);
template <>
i64 Workspace<ExpertCountsArgs>::bytes(const ExpertCountsArgs& args);
template <>
i64 Workspace<KeepChoicesArgs>::bytes(const KeepChoicesArgs& args);
template <>
i64 Workspace<LayerNormWeightArgs>::bytes(const LayerNormWeightArgs& args);
template <>
i64 Workspace<SortByExpertArgs>::bytes(const SortByExpertArgs& args);
template <>
i64 Workspace<SumSquaresArgs>::bytes(const SumSquaresArgs& args);
template <>
i64 Workspace<ZLossArgs>::bytes(const ZLossArgs& args);

}  // namespace cuda
}  // namespace tessera
