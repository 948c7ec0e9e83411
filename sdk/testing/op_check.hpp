#pragma once
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "operand.hpp"
#include "tessera/operation.hpp"

namespace tessera::testing {

/// Two values agree when they differ by at most relative · (largest of the tensor) + absolute;
/// infinities and NaN only agree with themselves. In a tensor of bf16 or fp16 this bounds the
/// difference before rounding: a value may be rounded to the neighbour of the expected one, but,
/// where the bound is small against their distance, few values are.
struct Tolerance {
  double relative = 2e-6, absolute = 1e-9;
};

struct OpOptions {
  Tolerance tolerance = {};
  /// Added to the relative tolerance of bf16 results, and an eighth of it to that of fp16 results:
  /// for operations that may round what they computed to that dtype before they multiply it again.
  double inner_rounding = 0;
  /// Demand the same bits under one thread and under three.
  bool any_threads = false;
};

/// One call of an operation: its constants and an operand for each of its tensors, in order.
struct OpCase {
  std::string name;
  std::string_view operation;
  int outputs = 0;
  std::vector<Operand> operands;
  std::vector<std::byte> args;  ///< the struct, its tensors still empty
  void (*infer)(void* args) = nullptr;
  OpOptions options = {};
};

/// `constants` is the arguments' struct with everything but its tensors filled in.
template <OperationArgs Args>
OpCase op_case(std::string name,
               const Args& constants,
               std::vector<Operand> operands,  // NOLINT(performance-unnecessary-value-param)
               const OpOptions& options = {}) {
  require(operands.size() == static_cast<std::size_t>(Args::kTensors),
          "{}: {} operands for the {} tensors of \"{}\"",
          name,
          operands.size(),
          Args::kTensors,
          Args::kName);
  OpCase made{.name = std::move(name),
              .operation = Args::kName,
              .outputs = Args::kOutputs,
              .operands = std::move(operands),
              .args = std::vector<std::byte>(sizeof(Args)),
              .options = options};
  std::memcpy(made.args.data(), &constants, sizeof(Args));
  made.infer = [](void* args) { Args::infer(*static_cast<Args*>(args)); };
  return made;
}

/// Result of a call: the values of each operand (none where absent), and what it should not have
/// done, one line each: written an input, written outside a tensor.
struct OpOutcome {
  std::vector<std::vector<double>> values;
  std::vector<DType> dtypes;
  std::string wrong;
};
TESSERA_API OpOutcome run_op(Device& device, const OpCase& op);

/// Runs the case on both devices and compares. Empty when they agree, else one line per problem;
/// a device without the operation is a problem.
TESSERA_API std::string op_check(Device& device, Device& reference, const OpCase& op);
/// The same against what run_op() gave on a reference, for several devices.
TESSERA_API std::string op_check(Device& device, const OpOutcome& expected, const OpCase& op);

/// "value 17 is 3.5, expected 3.25 (tolerance 1e-06)"; empty when they agree.
TESSERA_API std::string difference(const std::vector<double>& actual,
                                   const std::vector<double>& expected,
                                   const Tolerance& tolerance,
                                   DType dtype = DType::fp32);

}  // namespace tessera::testing
