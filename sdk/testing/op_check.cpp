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

/// Sets the threads of parallel_for for a scope.
class Threads {
 public:
  explicit Threads(int threads) : before_(parallel_threads()) { set_parallel_threads(threads); }
  ~Threads() { set_parallel_threads(before_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int before_;
};

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
                       const Tolerance& tolerance) {
  if (actual.size() != expected.size()) {
    return fmt::format("{} values, expected {}", actual.size(), expected.size());
  }
  double largest = 0;
  for (const double value : expected) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  }
  const double bound = tolerance.relative * largest + tolerance.absolute;
  std::size_t worst = 0;
  double distance = -1;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    if (same(actual[i], expected[i])) continue;
    double here = std::abs(actual[i] - expected[i]);
    if (std::isnan(here)) here = HUGE_VAL;
    if (here > distance) {
      distance = here;
      worst = i;
    }
  }
  if (distance <= bound) return {};
  return fmt::format("value {} is {}, expected {} (off by {:.3g}, tolerance {:.3g})",
                     worst,
                     actual[worst],
                     expected[worst],
                     distance,
                     bound);
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
  const std::size_t inputs = placed.size() - static_cast<std::size_t>(op.outputs);
  for (std::size_t i = 0; i < placed.size(); ++i) {
    if (!placed[i]) continue;
    outcome.values[i] = placed[i]->read();
    if (i < inputs && !written_by_alias(op, i) &&
        !same_bits(outcome.values[i], op.operands[i].values)) {
      outcome.wrong += fmt::format("{}: tensor {} is an input and was written\n", op.name, i);
    }
    if (!placed[i]->filling_intact()) {
      outcome.wrong += fmt::format("{}: memory beside tensor {} was written\n", op.name, i);
    }
  }
  return outcome;
}

std::string op_check(Device& device, Device& reference, const OpCase& op) {
  if (device.find(op.operation) == nullptr) {
    return fmt::format("{}: no operation \"{}\" on {}\n", op.name, op.operation, device.name());
  }
  const OpOutcome actual = run_op(device, op), expected = run_op(reference, op);
  std::string wrong = actual.wrong;
  const auto compare = [&](const OpOutcome& other, const Tolerance& tolerance, const char* when) {
    for (std::size_t i = 0; i < actual.values.size(); ++i) {
      const std::string found = difference(actual.values[i], other.values[i], tolerance);
      if (!found.empty()) wrong += fmt::format("{}: tensor {}{}: {}\n", op.name, i, when, found);
    }
  };
  compare(expected, op.options.tolerance, "");
  compare(run_op(device, op), {0, 0}, " in a second run");
  if (op.options.any_threads) {
    for (const int threads : {1, 3}) {
      const Threads scope(threads);
      compare(run_op(device, op), {0, 0}, " under another number of threads");
    }
  }
  return wrong;
}

}  // namespace tessera::testing
