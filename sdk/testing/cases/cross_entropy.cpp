#include "cases.hpp"

namespace tessera::testing {
namespace {

struct CrossEntropySize {
  i64 n, v, first, valid;
};

void add_size(Cases& cases, const CrossEntropySize& s) {
  const DType statistic = cases.statistic();
  const std::string name = fmt::format("{}x{} first {} valid {}", s.n, s.v, s.first, s.valid);
  const auto logits = [&] { return cases.random({s.n, s.v}, -4, 4); };
  // Half of the targets belong to other shards.
  const auto targets = [&] {
    return cases.integers({s.n}, DType::i64, 0, s.first + 2 * s.valid + 1);
  };
  const auto max = [&] { return cases.random({s.n}, statistic, 4, 5); };
  const auto mask = [&] { return cases.integers({s.n}, DType::u8, 0, 2); };

  CrossEntropyMaxArgs largest;
  largest.valid = s.valid;
  cases.add(name, largest, {logits(), Operand::result()});

  CrossEntropySumsArgs sums;
  sums.first = s.first;
  sums.valid = s.valid;
  cases.add(name, sums, {logits(), targets(), max(), Operand::result()});

  cases.add(
      name,
      CrossEntropyLossArgs{},
      {cases.random({s.n, 2}, statistic, 1, 9), mask(), cases.scalar(0.125), Operand::result()},
      {.any_threads = true});

  CrossEntropyLossArgs hits;
  hits.hits = true;
  cases.add(
      name + " hits",
      hits,
      {cases.integers({s.n, 2}, statistic, 0, 2), mask(), cases.scalar(0.5), Operand::result()},
      {.any_threads = true});

  CrossEntropyGradArgs grad;
  grad.first = s.first;
  grad.valid = s.valid;
  const auto denominators = [&] { return cases.random({s.n, 2}, statistic, 3, 9); };
  cases.add(name,
            grad,
            {logits(),
             targets(),
             max(),
             denominators(),
             mask(),
             cases.scalar(0.125),
             cases.scalar(-3),
             Operand::result()});
  cases.add(name + " in place",
            grad,
            {logits(),
             targets(),
             max(),
             denominators(),
             mask(),
             cases.scalar(0.125),
             cases.scalar(1024),
             Operand::alias(0)});
}

void add_whole(Cases& cases, i64 n, i64 v, i64 valid) {
  const std::string name = fmt::format("{}x{} valid {}", n, v, valid);
  const auto logits = [&] { return cases.random({n, v}, -4, 4); };
  const auto targets = [&] { return cases.integers({n}, DType::i64, 0, valid); };
  const auto mask = [&] { return cases.integers({n}, DType::u8, 0, 2); };
  WholeCrossEntropyArgs args;
  args.valid = valid;
  cases.add(name + " without gradient",
            args,
            {logits(),
             targets(),
             mask(),
             Operand::absent(),
             Operand::absent(),
             Operand::result(),
             Operand::absent()});
  for (const bool in_place : {false, true}) {
    cases.add(name + (in_place ? " in place" : ""),
              args,
              {logits(),
               targets(),
               mask(),
               cases.scalar(0.125),
               cases.scalar(-3),
               Operand::result(),
               in_place ? Operand::alias(0) : Operand::blank({n, v}, cases.dtype)});
  }
}

}  // namespace

void add_cross_entropy_cases(Cases& cases) {
  const CrossEntropySize sizes[] = {{1, 1, 0, 1},
                                    {3, 17, 0, 17},
                                    {33, 127, 40, 100},
                                    {127, 1000, 0, 999},
                                    {5, 8, 24, 0},
                                    {0, 5, 0, 5}};
  for (const CrossEntropySize& s : sizes) add_size(cases, s);
  add_whole(cases, 1, 1, 1);
  add_whole(cases, 3, 17, 17);
  add_whole(cases, 33, 127, 100);
  add_whole(cases, 127, 1000, 999);
  add_whole(cases, 0, 5, 5);
}

}  // namespace tessera::testing
