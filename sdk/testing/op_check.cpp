#include "op_check.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "tessera/parallel_for.hpp"

namespace tessera::testing {
namespace {

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

bool same_bits(const std::vector<double>& a, const std::vector<double>& b) {
  return std::ranges::equal(a, b, same);
}

bool written_by_alias(const OpCase& op, std::size_t input) {
  return std::ranges::any_of(op.operands, [&](const Operand& other) {
    return other.kind == Operand::Kind::alias && other.of == static_cast<int>(input);
  });
}

/// The distance of neighbours around a value of a narrow dtype; 0 for others.
double spacing(double value, DType dtype) {
  if (dtype != DType::bf16 && dtype != DType::fp16) return 0;
  if (!std::isfinite(value)) return 0;
  const bool bf16 = dtype == DType::bf16;
  const int lowest = bf16 ? -126 : -14, digits = bf16 ? 7 : 10;
  const int exponent = value == 0 ? lowest : std::max(std::ilogb(value), lowest);
  return std::ldexp(1.0, exponent - digits);
}

void describe_results(const OpCase& op,
                      std::vector<std::byte>& args,
                      Device& device,
                      std::vector<std::optional<PlacedOperand>>& placed) {
  auto* tensors = reinterpret_cast<TensorArg*>(args.data());
  op.infer(args.data());
  for (std::size_t i = 0; i < placed.size(); ++i) {
    if (op.operands[i].kind != Operand::Kind::result) continue;
    Shape shape;
    for (int d = 0; d < tensors[i].rank; ++d) shape.push_back(tensors[i].shape[d]);
    placed[i].emplace(device, Operand::blank(shape, tensors[i].dtype));
    tensors[i] = placed[i]->arg();
  }
}

}  // namespace

std::string difference(const std::vector<double>& actual,
                       const std::vector<double>& expected,
                       const Tolerance& tolerance,
                       DType dtype) {
  if (actual.size() != expected.size()) {
    return fmt::format("{} values, expected {}", actual.size(), expected.size());
  }
  if (same_bits(actual, expected)) return {};
  double largest = 0;
  for (const double value : expected) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  }
  const double bound = tolerance.relative * largest + tolerance.absolute;
  std::size_t worst = 0, neighbours = 0, comparable = 0;
  double excess = 0;  // over the bound of its value
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double step = spacing(std::max(std::abs(actual[i]), std::abs(expected[i])), dtype);
    const bool rarely = step > 64 * bound;  // one in 32 can be rounded to a neighbour
    comparable += rarely ? 1 : 0;
    if (same(actual[i], expected[i])) continue;
    neighbours += rarely ? 1 : 0;
    double here = std::abs(actual[i] - expected[i]) - (bound + step);
    if (std::isnan(here)) here = HUGE_VAL;
    if (here > excess) {
      excess = here;
      worst = i;
    }
  }
  if (excess > 0) {
    return fmt::format("value {} is {}, expected {} (off by {:.3g}, tolerance {:.3g})",
                       worst,
                       actual[worst],
                       expected[worst],
                       std::abs(actual[worst] - expected[worst]),
                       bound);
  }
  if (bound > 0 && neighbours > 3 + comparable / 16) {
    return fmt::format(
        "{} of {} values are rounded to a neighbour of the expected one: the result "
        "is rounded more than once, or computed in a narrow dtype",
        neighbours,
        comparable);
  }
  return {};
}

OpOutcome run_op(Device& device, const OpCase& op) {
  const Kernel* kernel = device.find(op.operation);
  require(
      kernel != nullptr, "the device \"{}\" has no operation \"{}\"", device.name(), op.operation);
  std::vector<std::byte> args = op.args;
  auto* tensors = reinterpret_cast<TensorArg*>(args.data());
  std::vector<std::optional<PlacedOperand>> placed(op.operands.size());
  for (std::size_t i = 0; i < placed.size(); ++i) {
    tensors[i] = {};
    if (op.operands[i].kind == Operand::Kind::given) {
      tensors[i] = placed[i].emplace(device, op.operands[i]).arg();
    }
  }
  for (std::size_t i = 0; i < placed.size(); ++i) {
    if (op.operands[i].kind == Operand::Kind::alias) tensors[i] = tensors[op.operands[i].of];
  }
  describe_results(op, args, device, placed);
  op.infer(args.data());  // accepts what it described itself
  device.launch(device.stream(), *kernel, args.data(), device.pool());

  OpOutcome outcome;
  outcome.values.resize(placed.size());
  outcome.dtypes.resize(placed.size(), DType::fp32);
  const std::size_t inputs = placed.size() - static_cast<std::size_t>(op.outputs);
  for (std::size_t i = 0; i < placed.size(); ++i) {
    if (!placed[i]) continue;
    PlacedOperand::Contents now = placed[i]->read();
    outcome.values[i] = std::move(now.values);
    outcome.dtypes[i] = placed[i]->arg().dtype;
    if (i < inputs && !written_by_alias(op, i) &&
        !same_bits(outcome.values[i], op.operands[i].values)) {
      outcome.wrong += fmt::format("{}: tensor {} is an input and was written\n", op.name, i);
    }
    if (!now.filling_intact) {
      outcome.wrong += fmt::format("{}: memory beside tensor {} was written\n", op.name, i);
    }
  }
  return outcome;
}

std::string op_check(Device& device, Device& reference, const OpCase& op) {
  if (device.find(op.operation) == nullptr) return op_check(device, OpOutcome(), op);
  return op_check(device, run_op(reference, op), op);
}

std::string op_check(Device& device, const OpOutcome& expected, const OpCase& op) {
  if (device.find(op.operation) == nullptr) {
    return fmt::format("{}: no operation \"{}\" on {}\n", op.name, op.operation, device.name());
  }
  const OpOutcome actual = run_op(device, op);
  std::string wrong = actual.wrong;
  const auto compare = [&](const OpOutcome& other, const Tolerance& tolerance, const char* when) {
    const bool exact = tolerance.relative == 0 && tolerance.absolute == 0;
    for (std::size_t i = 0; i < actual.values.size(); ++i) {
      const DType dtype = exact ? DType::fp32 : actual.dtypes[i];
      Tolerance bound = tolerance;
      if (dtype == DType::bf16) bound.relative += op.options.inner_rounding;
      if (dtype == DType::fp16) bound.relative += op.options.inner_rounding / 8;
      const std::string found = difference(actual.values[i], other.values[i], bound, dtype);
      if (!found.empty()) wrong += fmt::format("{}: tensor {}{}: {}\n", op.name, i, when, found);
    }
  };
  compare(expected, op.options.tolerance, "");
  compare(run_op(device, op), {0, 0}, " in a second run");
  if (op.options.any_threads) {
    for (const int threads : {1, 3}) {
      const ParallelThreads scope(threads);
      compare(run_op(device, op), {0, 0}, " under another number of threads");
    }
  }
  return wrong;
}

}  // namespace tessera::testing
