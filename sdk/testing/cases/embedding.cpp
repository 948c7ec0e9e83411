#include "cases.hpp"

namespace tessera::testing {

void add_embedding_cases(Cases& cases) {
  struct Size {
    i64 n, v, h;
  };
  for (const Size& s : {Size{1, 1, 1}, Size{17, 5, 33}, Size{127, 100, 127}, Size{0, 3, 4}}) {
    const std::string name = fmt::format("{} of {}x{}", s.n, s.v, s.h);
    const auto ids = [&] { return cases.integers({s.n}, DType::i64, 0, 2 * s.v); };
    EmbeddingArgs forward;
    forward.first = s.v / 2;  // a shard: ids below and above it
    cases.add(name, forward, {ids(), cases.random({s.v, s.h}), Operand::result()});
    EmbeddingWeightArgs backward;
    backward.first = s.v / 2;
    for (const DType sums : cases.accumulators()) {
      cases.add(fmt::format("{} into {}", name, dtype_name(sums)),
                backward,
                {ids(), cases.random({s.n, s.h}), cases.random({s.v, s.h}, sums, -1, 1)},
                {.any_threads = true});
    }
  }
}

}  // namespace tessera::testing
