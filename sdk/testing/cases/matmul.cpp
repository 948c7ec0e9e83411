#include "cases.hpp"

namespace tessera::testing {
namespace {

void add_products(Cases& cases) {
  struct Size {
    i64 m, n, k;
  };
  const Size sizes[] = {{1, 1, 1},
                        {3, 17, 33},
                        {17, 1, 3},
                        {33, 127, 1},
                        {127, 33, 17},
                        {65, 130, 257},
                        {77, 130, 66},
                        {70, 3, 5000},
                        {0, 3, 5},
                        {3, 5, 0}};
  for (const Size& s : sizes) {
    for (int bits = 0; bits < 8; ++bits) {
      MatmulArgs args;
      args.transpose_a = (bits & 1) != 0;
      args.transpose_b = (bits & 2) != 0;
      args.accumulate = (bits & 4) != 0;
      const Shape a = args.transpose_a ? Shape{s.k, s.m} : Shape{s.m, s.k};
      const Shape b = args.transpose_b ? Shape{s.n, s.k} : Shape{s.k, s.n};
      const std::string name = fmt::format("{}x{}x{}{}{}{}",
                                           s.m,
                                           s.n,
                                           s.k,
                                           args.transpose_a ? " ta" : "",
                                           args.transpose_b ? " tb" : "",
                                           args.accumulate ? " accumulate" : "");
      const Shape out{s.m, s.n};
      // Sums in fp32 over a deep inner dimension, in any order.
      const OpOptions options{.tolerance = {.relative = s.k > 1000 ? 1e-5 : 2e-6}};
      for (const DType sums : cases.accumulators()) {
        if (sums != cases.dtype && !args.accumulate) continue;  // only sums may be wider
        const std::string into = sums == cases.dtype ? name : name + " into fp32";
        const auto sum = [&] { return cases.random(out, sums, -1, 1); };
        cases.add(into,
                  args,
                  {cases.random(a),
                   cases.random(b),
                   Operand::absent(),
                   Operand::absent(),
                   args.accumulate ? sum() : Operand::result()},
                  options);
        cases.add(into + " strides",
                  args,
                  {cases.random(a).in(InMemory::padded),
                   cases.random(b).in(InMemory::padded),
                   Operand::absent(),
                   Operand::absent(),
                   (args.accumulate ? sum() : Operand::blank(out, sums)).in(InMemory::padded)},
                  options);
      }
      if (args.accumulate) continue;
      cases.add(name + " bias",
                args,
                {cases.random(a),
                 cases.random(b),
                 cases.random({s.n}),
                 Operand::absent(),
                 Operand::result()},
                options);
    }
  }
}

void add_linear_weights(Cases& cases) {
  struct Size {
    i64 n, out, in;
  };
  const Size sizes[] = {{1, 1, 1},
                        {3, 17, 33},
                        {33, 1, 5},
                        {127, 65, 50},
                        {256, 300, 100},
                        {5000, 70, 3},
                        {0, 5, 3},
                        {3, 5, 0}};
  for (const Size& s : sizes) {
    const OpOptions options{.tolerance = {.relative = s.n > 1000 ? 1e-5 : 2e-6}};
    for (const DType sums : cases.accumulators()) {
      for (const InMemory in_memory : {InMemory::dense, InMemory::padded}) {
        cases.add(fmt::format("{}x{}x{} into {}{}",
                              s.n,
                              s.out,
                              s.in,
                              dtype_name(sums),
                              in_memory == InMemory::padded ? " strides" : ""),
                  LinearWeightArgs{},
                  {cases.random({s.n, s.out}).in(in_memory),
                   cases.random({s.n, s.in}).in(in_memory),
                   cases.random({s.out, s.in}, sums, -1, 1).in(in_memory),
                   cases.random({s.out}, sums, -1, 1)},
                  options);
      }
    }
  }
}

}  // namespace

void add_matmul_cases(Cases& cases) {
  add_products(cases);
  add_linear_weights(cases);
  for (const auto& [n, m] : {std::pair<i64, i64>{1, 1}, {3, 17}, {127, 33}, {300, 127}, {0, 5}}) {
    const std::string name = fmt::format("{}x{}", n, m);
    for (const DType sums : cases.accumulators()) {
      cases.add(fmt::format("{} into {}", name, dtype_name(sums)),
                ColumnSumArgs{},
                {cases.random({n, m}), cases.random({m}, sums, -1, 1)});
    }
    cases.add(name, AddBiasArgs{}, {cases.random({n, m}), cases.random({m}), Operand::result()});
    cases.add(name + " in place",
              AddBiasArgs{},
              {cases.random({n, m}), cases.random({m}), Operand::alias(0)});
  }
}

}  // namespace tessera::testing
