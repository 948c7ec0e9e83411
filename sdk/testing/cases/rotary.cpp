#include <cmath>

#include "cases.hpp"

namespace tessera::testing {
namespace {

/// Cosines and sines as a model has them.
std::vector<double> angles(i64 positions, i64 pairs) {
  std::vector<double> table;
  for (i64 p = 0; p < positions; ++p) {
    for (const bool sine : {false, true}) {
      for (i64 j = 0; j < pairs; ++j) {
        const double angle = static_cast<double>(p) *
                             std::pow(1e4, -static_cast<double>(j) / static_cast<double>(pairs));
        table.push_back(sine ? std::sin(angle) : std::cos(angle));
      }
    }
  }
  return table;
}

}  // namespace

void add_rotary_cases(Cases& cases) {
  struct Size {
    i64 n, heads, features, pairs;
  };
  constexpr i64 kPositions = 40;
  for (const Size& s :
       {Size{1, 1, 2, 1}, {7, 3, 64, 32}, {33, 2, 34, 17}, {5, 3, 37, 9}, {0, 2, 8, 4}}) {
    for (const bool interleaved : {false, true}) {
      for (const bool inverse : {false, true}) {
        RotaryArgs args;
        args.interleaved = interleaved;
        args.inverse = inverse;
        cases.add(fmt::format("{}x{}x{}, {} pairs{}{}",
                              s.n,
                              s.heads,
                              s.features,
                              s.pairs,
                              interleaved ? " of neighbours" : "",
                              inverse ? ", back" : ""),
                  args,
                  {cases.random({s.n, s.heads, s.features}),
                   cases.integers({s.n}, DType::i64, -2, kPositions + 2),
                   Operand::given(
                       {kPositions, 2, s.pairs}, cases.statistic(), angles(kPositions, s.pairs)),
                   Operand::result()},
                  {.any_threads = true});
      }
    }
  }
}

}  // namespace tessera::testing
