#include "cases.hpp"

namespace tessera::testing {
namespace {

/// Rows that are not centred.
template <class Args>
Args rmsnorm() {
  Args args;
  args.centred = false;
  return args;
}

}  // namespace

void add_norm_cases(Cases& cases) {
  const DType statistic = cases.statistic();
  for (const auto& [n, h] :
       {std::pair<i64, i64>{1, 1}, {1, 33}, {3, 17}, {33, 127}, {127, 384}, {2, 1000}, {0, 8}}) {
    const std::string name = fmt::format("{}x{}", n, h);
    const auto matrix = [&, n = n, h = h] { return cases.random({n, h}, -2, 3); };
    const auto mean = [&, n = n] { return cases.random({n}, statistic, -1, 1); };
    const auto rstd = [&, n = n] { return cases.random({n}, statistic, 0.5, 1.5); };
    cases.add(name,
              LayerNormArgs{},
              {matrix(),
               cases.random({h}),
               cases.random({h}),
               Operand::result(),
               Operand::result(),
               Operand::result()},
              {.tolerance = {.relative = 5e-6}});
    cases.add(name + " rms",
              rmsnorm<LayerNormArgs>(),
              {matrix(),
               cases.random({h}),
               Operand::absent(),
               Operand::result(),
               Operand::absent(),
               Operand::result()},
              {.tolerance = {.relative = 5e-6}});
    cases.add(name + " rms",
              rmsnorm<LayerNormBackwardArgs>(),
              {matrix(), matrix(), cases.random({h}), Operand::absent(), rstd(), Operand::result()},
              {.tolerance = {.relative = 5e-6}});
    cases.add(name,
              LayerNormBackwardArgs{},
              {matrix(), matrix(), cases.random({h}), mean(), rstd(), Operand::result()},
              {.tolerance = {.relative = 5e-6}});
    for (const bool in_place : {false, true}) {
      cases.add(name + (in_place ? " in place" : ""),
                LayerNormBackwardAddArgs{},
                {matrix(),
                 matrix(),
                 cases.random({h}),
                 mean(),
                 rstd(),
                 matrix(),
                 in_place ? Operand::alias(5) : Operand::result()},
                {.tolerance = {.relative = 5e-6}});
      cases.add(name + (in_place ? " rms in place" : " rms"),
                rmsnorm<LayerNormBackwardAddArgs>(),
                {matrix(),
                 matrix(),
                 cases.random({h}),
                 Operand::absent(),
                 rstd(),
                 matrix(),
                 in_place ? Operand::alias(5) : Operand::result()},
                {.tolerance = {.relative = 5e-6}});
    }
    for (const DType sums : cases.accumulators()) {
      const auto sum = [&, h = h] { return cases.random({h}, sums, -1, 1); };
      cases.add(fmt::format("{} into {}", name, dtype_name(sums)),
                LayerNormWeightArgs{},
                {matrix(), matrix(), mean(), rstd(), sum(), sum()},
                {.tolerance = {.relative = 5e-6}});
      cases.add(fmt::format("{} rms into {}", name, dtype_name(sums)),
                rmsnorm<LayerNormWeightArgs>(),
                {matrix(), matrix(), Operand::absent(), rstd(), sum(), Operand::absent()},
                {.tolerance = {.relative = 5e-6}});
    }
  }
  // A mean far above the spread: the naive E[x²] - mean² has no correct digit left in fp32.
  cases.add("far from zero",
            LayerNormArgs{},
            {cases.narrow() ? cases.random({5, 127}, 100, 104) : cases.random({5, 127}, 1000, 1001),
             cases.random({127}),
             cases.random({127}),
             Operand::result(),
             Operand::result(),
             Operand::result()},
            {.tolerance = {.relative = 2e-3}});
}

}  // namespace tessera::testing
