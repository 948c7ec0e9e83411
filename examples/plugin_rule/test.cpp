// One update of three elements, against the formula.
#include <cmath>
#include <cstdio>
#include <exception>
#include <tessera/ops.hpp>
#include <tessera/optimizer.hpp>
#include <tessera/testing/local_world.hpp>
#include <tessera/testing/workbench.hpp>

namespace {

using namespace tessera;
using namespace tessera::testing;

bool differs(const char* what, const std::vector<double>& is, const std::vector<double>& expected) {
  bool wrong = is.size() != expected.size();
  for (std::size_t i = 0; i < is.size() && !wrong; ++i)
    wrong = std::abs(is[i] - expected[i]) > 1e-6;
  if (wrong) std::fprintf(stderr, "%s is not what the formula gives\n", what);
  return wrong;
}

bool update_is_wrong(const LocalWorld& world, LocalRank& rank) {
  RuleArguments arguments{&rank.device()};
  const auto rule =
      world.make<UpdateRule>("signum", arguments, {{"beta", 0.9}, {"weight_decay", 1.0}});
  Shards shards;
  shards.main = rank.tensor({3}, {1, 1, 1});
  shards.grad = rank.tensor({3}, {4, -4, 0});
  shards.list = {{.range = {0, 3}, .hyper = {.weight_decay = rule->weight_decay()}}};
  shards.allocate(rank.device(), rule->state().size());
  write(shards.state[0], {0, 1, 0});
  std::vector<double> values(step_scalar::kCount, 0);
  values[step_scalar::kLearningRate] = 0.1;
  values[step_scalar::kGradientScale] = 0.5;
  const Tensor scalars = rank.tensor({step_scalar::kCount}, DType::fp64, values);
  rule->update(rank.context(), shards, scalars);
  // With g = grad / 2, 0.9 m + 0.1 g is 0.2, 0.7 and 0: signs 1, 1 and 0; all decay by a tenth.
  bool wrong = differs("main", read(shards.main), {0.8, 0.8, 0.9});
  wrong |= differs("momentum", read(shards.state[0]), {0.2, 0.7, 0});
  wrong |= differs("grad", read(shards.grad), {0, 0, 0});
  values[step_scalar::kFoundInf] = 1;  // a skipped step drops its gradients, and nothing else
  write(scalars, values);
  write(shards.grad, {1, 1, 1});
  rule->update(rank.context(), shards, scalars);
  wrong |= differs("main after a skipped step", read(shards.main), {0.8, 0.8, 0.9});
  wrong |= differs("grad after a skipped step", read(shards.grad), {0, 0, 0});
  return wrong;
}

}  // namespace

int main(int argc, char** argv) try {
  const std::vector<std::filesystem::path> folders(argv + 1, argv + argc);  // of plugins
  const LocalWorld world(folders);
  bool wrong = false;
  for (const char* device : {"reference", "cpu"}) {
    LocalWorldOptions one_rank;
    one_rank.device = device;
    world.run(one_rank, [&](LocalRank& rank) { wrong |= update_is_wrong(world, rank); });
  }
  return wrong ? 1 : 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
