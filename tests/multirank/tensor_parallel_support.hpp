#pragma once
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tessera/collectives.hpp"
#include "tessera/ops.hpp"
#include "tessera/testing/local_world.hpp"
#include "tessera/testing/workbench.hpp"

namespace tessera::testing {

using Values = std::vector<double>;

/// The plugins of the build tree.
const LocalWorld& local_world();

/// A world with tensor parallelism only.
LocalWorldOptions tensor_ranks(i64 ranks, DType dtype = DType::fp32);

/// Uniform in [-1, 1), the same on every rank.
Values random_values(i64 count, u64 seed);

/// Rows × columns of a row-major matrix [rows, columns].
Values columns_of(const Values& matrix, i64 columns, i64 first, i64 count);
Values rows_of(const Values& matrix, i64 columns, i64 first, i64 count);

/// Gives the built parameter these values.
void set_values(LocalRank& rank, const std::string& parameter, const Values& values);

/// Records `body` of one leaf, seeds its result with `gradient`, and returns the leaf's gradient.
struct Pass {
  Tensor result;
  Tensor input_gradient;  ///< waited for; undefined when none arrived
};
Pass run_pass(LocalRank& rank,
              const Tensor& input,
              const Tensor& gradient,
              const std::function<Tensor(Context&, const Tensor&)>& body);

}  // namespace tessera::testing
