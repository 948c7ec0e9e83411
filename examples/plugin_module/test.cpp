// Gradients against differences, and the module in a transformer block whose tensor ranks keep
// their own rows: a sum of gradients that is missing there shows here.
#include <cstdio>
#include <exception>
#include <tessera/testing/gradient_check.hpp>
#include <tessera/testing/layer_check.hpp>
#include <tessera/testing/workbench.hpp>

#include "scale_norm.hpp"

int main(int argc, char** argv) try {
  using namespace example;
  using namespace tessera::testing;
  const std::vector<std::filesystem::path> folders(argv + 1, argv + argc);  // of plugins
  const LocalWorld world(folders);
  std::string wrong = layer_check(
      world,
      {.type = "transformer_block",
       .values = {{"model.hidden", 16}, {"model.heads", 2}, {"layer.norm.type", "scale_norm"}}});
  LocalWorldOptions one_rank;
  one_rank.device = "reference";
  world.run(one_rank, [&](LocalRank& rank) {
    Workbench bench(rank.device());
    const ScaleNormFunction norm(rank.device());
    const auto scale = bench.parameter("scale", bench.random({1}, DType::fp64, 2));
    const auto function = [&](Context& cx, const std::vector<Tensor>& in) {
      return std::vector<Tensor>{norm(cx, in[0], *scale, 1e-3)};
    };
    Parameter* const parameters[] = {scale.get()};
    wrong += gradient_check(
        bench.context(), function, {bench.random({5, 6}, DType::fp64, 1)}, parameters);
  });
  std::fputs(wrong.c_str(), stderr);
  return wrong.empty() ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
