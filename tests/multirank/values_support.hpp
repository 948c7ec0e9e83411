#pragma once
#include <functional>
#include <string>
#include <vector>

#include "tessera/device/device.hpp"
#include "tessera/tensor.hpp"

namespace tessera::testing {

/// A dense tensor with value(i) at element i, rounded to its type.
Tensor filled(Device& device, i64 elements, DType dtype, const std::function<double(i64)>& value);
/// Its elements as doubles.
std::vector<double> values_of(const Tensor& tensor);
/// Throws, naming `what`, when element i of the tensor is not exactly expected(i).
void expect_values(const Tensor& tensor,
                   const std::function<double(i64)>& expected,
                   const std::string& what);

/// A small integer, exact in every element type also when summed over ranks.
double small_value(i64 rank, i64 i, u64 salt, DType dtype);
/// Uniform in [-1, 1).
float random_value(i64 rank, i64 i, u64 salt);

}  // namespace tessera::testing
