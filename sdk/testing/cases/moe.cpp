#include <algorithm>

#include "cases.hpp"
#include "tessera/random.hpp"

namespace tessera::testing {
namespace {

struct MoeSize {
  i64 n, k, experts;
};

/// Counting, sorting and inverting. Some choices are dropped.
void add_orders(Cases& cases, const MoeSize& s) {
  const std::string name = fmt::format("{}x{} of {}", s.n, s.k, s.experts);
  const auto experts = [&] { return cases.integers({s.n, s.k}, DType::i32, -1, s.experts + 1); };
  ExpertCountsArgs counts;
  counts.all = s.experts;
  cases.add(name, counts, {experts(), Operand::result()});
  counts.rows = {.first = 1, .positions = s.n + 1, .sequences = 2};
  cases.add(name + " of sequences", counts, {experts(), Operand::result()});
  counts.rows = {};
  counts.add = true;
  cases.add(name + " added", counts, {experts(), cases.integers({s.experts}, DType::i64, 0, 9)});
  SortByExpertArgs sort;
  sort.all = s.experts;
  cases.add(name, sort, {experts(), Operand::result(), Operand::result()});
  for (const bool by_weight : {true, false}) {
    KeepChoicesArgs keep;
    keep.all = s.experts;
    keep.limit = std::max<i64>(1, s.n * s.k / s.experts / 2);
    keep.per_sample = by_weight;
    keep.first = s.n / 3;
    keep.rows = s.n - s.n / 3;
    std::vector<double> rows;  // of three samples, in no order, and padding
    for (i64 i = 0; i < s.n; ++i) {
      const i64 row = i % 7 == 5 ? padding_row(s.n - i) : row_id(i % 3, s.n - i);
      rows.push_back(static_cast<double>(row));
    }
    cases.add(name + (by_weight ? " by weight" : " by position"),
              keep,
              {experts(),
               by_weight ? cases.random({s.n, s.k}, cases.statistic(), -1, 1) : Operand::absent(),
               Operand::given({s.n}, DType::i64, std::move(rows)),
               Operand::result()});
  }
  PadOrderArgs pad;
  pad.places = s.n * s.k / s.experts + 1;
  cases.add(name,
            pad,
            {cases.integers({s.n * s.k}, DType::i32, 0, s.n * s.k),
             cases.integers({s.experts}, DType::i64, 0, 2 * pad.places),
             Operand::result()});
  InvertOrderArgs invert;
  invert.size = s.n * s.k + 3;
  std::vector<double> reversed;
  for (i64 i = s.n * s.k; i > 0; --i) reversed.push_back(static_cast<double>(2 * i - 2));
  cases.add(name,
            invert,
            {Operand::given({s.n * s.k}, DType::i32, std::move(reversed)), Operand::result()});
}

/// Rows in the order of their experts and back; some places are empty.
void add_rows(Cases& cases, const MoeSize& s, i64 h) {
  const std::string name = fmt::format("{}x{} rows of {}", s.n, s.k, h);
  const i64 m = s.n * s.k + 2;
  for (const DType dtype : {cases.dtype, DType::i64}) {
    PermuteRowsArgs permute;
    permute.k = s.k;
    const Operand x =
        dtype == DType::i64 ? cases.integers({s.n, h}, dtype, 0, 1000) : cases.random({s.n, h});
    cases.add(fmt::format("{} {}", name, dtype_name(dtype)),
              permute,
              {x, cases.integers({m}, DType::i32, -1, s.n * s.k + 1), Operand::result()});
  }
  cases.add(
      name,
      UnpermuteRowsArgs{},
      {cases.random({m, h}), cases.integers({s.n, s.k}, DType::i32, -1, m + 1), Operand::result()});
}

struct Products {
  i64 k, n;
  std::vector<double> counts;
  i64 padding = 0;
};

void add_products(Cases& cases, const Products& p) {
  const i64 all = static_cast<i64>(p.counts.size());
  i64 m = p.padding;
  for (const double count : p.counts) m += static_cast<i64>(count);
  const std::string name = fmt::format("{}x{}x{} of {}", m, p.n, p.k, all);
  const auto counts = [&] { return Operand::given({all}, DType::i64, p.counts); };
  for (const bool transposed : {false, true}) {
    GroupedMatmulArgs product;
    product.transpose_b = transposed;
    const Shape b = transposed ? Shape{all, p.n, p.k} : Shape{all, p.k, p.n};
    cases.add(name + (transposed ? " tb" : ""),
              product,
              {cases.random({m, p.k}), counts(), cases.random(b), Operand::result()});
  }
  for (const DType sums : cases.accumulators()) {
    cases.add(fmt::format("{} into {}", name, dtype_name(sums)),
              GroupedWeightArgs{},
              {cases.random({m, p.k}),
               counts(),
               cases.random({m, p.n}),
               cases.random({all, p.k, p.n}, sums, -1, 1)});
  }
}

void add_activations(Cases& cases, i64 m, i64 f) {
  const std::pair<Activation, const char*> all[] = {
      {Activation::swiglu, "swiglu"}, {Activation::gelu, "gelu"}, {Activation::geglu, "geglu"}};
  for (const auto& [activation, called] : all) {
    const bool gated = is_gated(activation);
    const std::string name = fmt::format("{} {}x{}", called, m, f);
    const auto x = [&] { return cases.random({m, gated ? 2 * f : f}, -4, 4); };
    const auto weights = [&] { return cases.random({m}, cases.statistic(), -1, 1); };
    WeightedActivationArgs forward;
    forward.activation = activation;
    const OpOptions options{.tolerance = {.relative = 5e-6}};
    cases.add(name, forward, {x(), weights(), Operand::result()}, options);
    cases.add(name + " alone", forward, {x(), Operand::absent(), Operand::result()}, options);
    WeightedActivationBackwardArgs back;
    back.activation = activation;
    cases.add(name,
              back,
              {cases.random({m, f}), x(), weights(), Operand::result(), Operand::result()},
              options);
    cases.add(name + " alone",
              back,
              {cases.random({m, f}), x(), Operand::absent(), Operand::result(), Operand::absent()},
              options);
  }
}

}  // namespace

void add_moe_cases(Cases& cases) {
  const MoeSize sizes[] = {{1, 1, 1}, {3, 2, 8}, {127, 8, 64}, {33, 3, 5}, {0, 2, 4}};
  for (const MoeSize& s : sizes) {
    add_orders(cases, s);
    for (const i64 h : {1, 33, 127}) add_rows(cases, s, h);
  }
  const Products products[] = {{1, 1, {1}},
                               {33, 17, {3, 0, 5}},
                               {17, 130, {0, 70, 1, 0, 60}, 4},
                               {257, 65, {127, 130, 0}},
                               {5, 3, {0, 0}},
                               {4, 3, {}, 2},
                               {0, 3, {2, 1}}};
  for (const Products& p : products) add_products(cases, p);
  // Counts that do not fit the rows: what is negative is none, what is too many ends with them.
  cases.add("counts that do not fit",
            GroupedMatmulArgs{},
            {cases.random({5, 3}),
             Operand::given({4}, DType::i64, {2, -1, 7, 1}),
             cases.random({4, 3, 6}),
             Operand::result()});
  for (const auto& [m, f] : {std::pair<i64, i64>{1, 1}, {3, 17}, {33, 127}, {0, 4}}) {
    add_activations(cases, m, f);
  }
}

}  // namespace tessera::testing
