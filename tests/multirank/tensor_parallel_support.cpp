#include "tensor_parallel_support.hpp"

namespace tessera::testing {

const LocalWorld& local_world() {
  static const LocalWorld kWorld({TESSERA_BUILD_DIR "/plugins"});
  return kWorld;
}

LocalWorldOptions tensor_ranks(i64 ranks, DType dtype) {
  LocalWorldOptions options;
  options.layout.world = options.layout.tensor = ranks;
  options.dtype = dtype;
  return options;
}

Values random_values(i64 count, u64 seed) {
  std::mt19937_64 engine(seed);
  std::uniform_real_distribution<double> uniform(-1, 1);
  Values values(static_cast<std::size_t>(count));
  // Exact in fp32, so that references in double start from the same numbers.
  for (double& value : values) value = static_cast<float>(uniform(engine));
  return values;
}

Values columns_of(const Values& matrix, i64 columns, i64 first, i64 count) {
  Values part;
  for (i64 row = 0; row < static_cast<i64>(matrix.size()) / columns; ++row) {
    const auto begin = matrix.begin() + row * columns + first;
    part.insert(part.end(), begin, begin + count);
  }
  return part;
}

Values rows_of(const Values& matrix, i64 columns, i64 first, i64 count) {
  const auto begin = matrix.begin() + first * columns;
  return {begin, begin + count * columns};
}

void set_values(LocalRank& rank, const std::string& parameter, const Values& values) {
  write(rank.parameter(parameter).main, values);
}

Pass run_pass(LocalRank& rank,
              const Tensor& input,
              const Tensor& gradient,
              const std::function<Tensor(Context&, const Tensor&)>& body) {
  Tape tape;
  Context cx = rank.context();
  cx.tape = &tape;
  std::vector<Tensor> leaves{input.with_var(kNeedsGradient)};
  const Tape::FrameId frame = tape.begin(leaves);
  const std::vector<Tensor> results{body(cx, leaves[0])};
  tape.end(results);
  std::vector<Tape::Gradient> gradients(1);
  gradients[0].tensor = gradient;
  tape.backward(cx, frame, Half::both, gradients);
  gradients[0].pending.wait(*cx.stream);
  return {results[0], gradients[0].tensor};
}

}  // namespace tessera::testing
