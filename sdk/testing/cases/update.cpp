#include <algorithm>
#include <cmath>
#include <limits>

#include "cases.hpp"

namespace tessera::testing {
namespace {

Operand scalars(double steps, double rate, bool found_inf) {
  std::vector<double> values(step_scalar::kCount);
  values[step_scalar::kSteps] = steps;
  values[step_scalar::kLearningRate] = rate;
  values[step_scalar::kLossScale] = 256;
  values[step_scalar::kFoundInf] = found_inf ? 1 : 0;
  values[step_scalar::kGradientScale] = 0.7 / 256;
  return Operand::given({step_scalar::kCount}, DType::fp64, values);
}

/// Shards with gaps and without, of one element and of many: `ranges` of gradients for sums of
/// squares, `places` and `hyper` for updates. Gradients, main values and state of a shard begin at
/// different elements, but fit in n.
struct Table {
  std::vector<double> ranges, places, hyper;
  i64 state = 0;
  i64 count() const { return static_cast<i64>(ranges.size() / 2); }
  void add(i64 begin, i64 main, i64 length, double lr_scale, double decay) {
    const auto number = [](i64 value) { return static_cast<double>(value); };
    ranges.insert(ranges.end(), {number(begin), number(length)});
    places.insert(places.end(), {number(length), number(begin), number(main), number(state)});
    hyper.insert(hyper.end(), {lr_scale, decay});
    state += length;
  }
};

Table table_of(i64 n) {
  Table table;
  if (n < 100) {
    if (n > 0) table.add(0, 0, n, 0.5, 0.1);
    return table;
  }
  table.add(0, 3, 5, 0.5, 0.1);
  table.add(5, 9, 1, 2, 0);
  table.add(64, 16, n - 64 - 3, 1, 0.3);
  return table;
}

Operand ranges_of(const Table& table) {
  return Operand::given({table.count(), 2}, DType::i64, table.ranges);
}

// Main parameters and gradients are never narrow; the copy of main and the state may be.
void add_rules(Cases& cases, i64 n, double steps, bool found_inf) {
  const std::string name = fmt::format("{} step {}{}", n, steps, found_inf ? " skipped" : "");
  const auto grad = [&] {
    Operand operand = cases.random({n}, cases.statistic(), -256, 256);
    if (found_inf && n > 0) operand.values.back() = std::numeric_limits<double>::quiet_NaN();
    return operand;
  };
  const auto main = [&] { return cases.random({n}, cases.statistic(), -1, 1); };
  const auto moment = [&] { return cases.random({n}, cases.statistic(), 0.01, 1); };
  const auto copy = [&] { return cases.random({n}); };
  const auto step = [&] { return scalars(steps, 0.05, found_inf); };
  const Table table = table_of(n);
  const Operand ranges = Operand::given({table.count(), 4}, DType::i64, table.places);
  const Operand hyper = Operand::given({table.count(), 2}, DType::fp64, table.hyper);
  const AdamWArgs adamw;
  cases.add(
      name, adamw, {step(), ranges, hyper, grad(), main(), main(), moment(), Operand::absent()});
  cases.add(
      name + " compute", adamw, {step(), ranges, hyper, grad(), main(), main(), moment(), copy()});
  SgdArgs sgd;
  cases.add(
      name, sgd, {step(), ranges, hyper, grad(), main(), Operand::absent(), Operand::absent()});
  sgd.momentum = 0.9;
  cases.add(name + " momentum", sgd, {step(), ranges, hyper, grad(), main(), main(), copy()});
  if (!cases.narrow()) return;
  const auto state = [&] { return cases.random({n}, 0.01, 1); };
  cases.add(name + " narrow state",
            adamw,
            {step(), ranges, hyper, grad(), main(), state(), state(), Operand::absent()});
  cases.add(name + " narrow momentum",
            sgd,
            {step(), ranges, hyper, grad(), main(), state(), Operand::absent()});
}

/// Every other block of n elements, in places with gaps.
struct Blocks {
  Operand table;
  i64 places = 1;
};

Blocks blocks_of(i64 n) {
  std::vector<double> rows;
  i64 place = 1;
  for (i64 begin = 0; begin < n; begin += 2 * kSquareBlock, place += 2) {
    const i64 length = std::min(kSquareBlock, n - begin);
    for (const i64 value : {begin, length, place}) rows.push_back(static_cast<double>(value));
  }
  const i64 count = static_cast<i64>(rows.size()) / 3;
  return {Operand::given({count, 3}, DType::i64, rows), place + 1};
}

void add_step(Cases& cases, const std::string& name, double sum, double clip, double steps) {
  StepScalarsArgs args;
  args.clip = clip;
  const Operand rates = Operand::given({3}, DType::fp64, {0.1, 0.2, 0.3});
  cases.add(name, args, {cases.scalar(sum), rates, scalars(steps, 0.05, false)});
}

}  // namespace

void add_update_cases(Cases& cases) {
  for (const i64 n : {1, 17, 0}) {
    cases.add(fmt::format("{}", n),
              ReciprocalArgs{},
              {cases.integers({n}, DType::i64, 0, 4), Operand::result()});
  }
  for (const i64 n : {1, 17, 0}) {
    const auto doubles = [&] { return cases.random({n}, DType::fp64, -1, 1); };
    cases.add(fmt::format("{}", n), MaximumArgs{}, {doubles(), doubles(), Operand::result()});
  }
  // Gradients are never narrow.
  const auto wide = [&](i64 n) { return cases.random({n}, cases.statistic(), -2, 2); };
  for (const i64 n : {1, 3, 17, 127, 9001, 100000, 0}) {
    cases.add(fmt::format("{}", n),
              SumSquaresArgs{},
              {wide(n), Operand::absent(), cases.scalar(3)},
              {.tolerance = {.relative = 1e-9}, .any_threads = true});
    cases.add(fmt::format("{} ranges", n),
              SumSquaresArgs{},
              {wide(n), ranges_of(table_of(n)), cases.scalar(3)},
              {.tolerance = {.relative = 1e-9}, .any_threads = true});
  }
  for (const i64 n : {1, 3, 9001, 100000, 0}) {
    const Blocks blocks = blocks_of(n);
    cases.add(fmt::format("{}", n),
              BlockSquaresArgs{},
              {wide(n), blocks.table, cases.random({blocks.places}, DType::fp64, -2, 2)},
              {.tolerance = {.relative = 1e-9}, .any_threads = true});
  }
  cases.add("ranges",
            SumBlocksArgs{},
            {cases.random({9}, DType::fp64, 0, 2),
             Operand::given({3, 2}, DType::i64, {2, 5, 0, 1, 8, 1}),
             cases.scalar(3)});
  for (const i64 n : {1, 3, 127, 9001, 0}) {
    add_rules(cases, n, 1, false);
    add_rules(cases, n, 1000, false);
    add_rules(cases, n, 3, true);
  }
  add_step(cases, "not clipped", 4096, 1e3, 0);
  add_step(cases, "clipped", 4096e6, 1, 1);
  add_step(cases, "no bound", 4096e6, 0, 2);
  add_step(cases, "past the table", 4096, 1, 100);
  add_step(cases, "zero gradient", 0, 1, 0);
  StepScalarsArgs grows;
  grows.scaling = {.window = 1};
  cases.add("loss scale grows",
            grows,
            {cases.scalar(4096), Operand::given({1}, DType::fp64, {0.1}), scalars(0, 0.05, false)});
}

}  // namespace tessera::testing
