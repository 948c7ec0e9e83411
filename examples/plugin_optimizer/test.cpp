// One step of plain gradient descent: how far each layer's parameter moves.
#include <cmath>
#include <cstdio>
#include <exception>
#include <tessera/optimizer.hpp>
#include <tessera/testing/local_world.hpp>
#include <tessera/testing/workbench.hpp>

namespace {

using namespace tessera;
using namespace tessera::testing;

bool step_is_wrong(const LocalWorld& world, LocalRank& rank) {
  Workbench bench(rank.device());
  std::vector<std::unique_ptr<Parameter>> owned;
  std::vector<Parameter*> parameters;
  std::vector<ParameterName> names;
  for (const char* name : {"embedding.weight", "layers.0.w", "layers.1.w", "head.norm.weight"}) {
    owned.push_back(bench.parameter(name, rank.tensor({2}, {1, 1})));
    parameters.push_back(owned.back().get());
    names.push_back({name, {}});
  }
  ParameterMemory memory(parameters, {});
  memory.allocate_values(rank.device(), DType::fp32, DType::fp32);
  memory.allocate_gradients(rank.device());
  OptimizerArguments arguments{.parameters = parameters,
                               .model = names,
                               .memory = &memory,
                               .mesh = &rank.mesh(),
                               .device = &rank.device()};
  arguments.make_rule = [&](const Component<UpdateRule>&) {
    RuleArguments of_rule{&rank.device()};
    return world.make<UpdateRule>("sgd", of_rule);
  };
  const auto optimizer =
      world.make<Optimizer>("layerwise", arguments, {{"decay", 0.5}, {"clip", 0.0}});
  for (Parameter* parameter : parameters) {
    write(parameter->main, {1, 1});
    write(parameter->grad, {1, 1});
  }
  std::vector<double> values(step_scalar::kCount, 0);
  values[step_scalar::kLearningRate] = 0.8;
  values[step_scalar::kGradientScale] = 1;
  values[step_scalar::kSteps] = 1;
  optimizer->step(rank.context(), rank.tensor({step_scalar::kCount}, DType::fp64, values));
  bool wrong = false;
  double expected = 0.1;  // the rate of the lowest: three layers are above it
  for (const Parameter* parameter : parameters) {
    const double moved = 1 - read(parameter->main)[0];
    if (std::abs(moved - expected) > 1e-6) {
      std::fprintf(stderr, "%s moves %g, not %g\n", parameter->name.c_str(), moved, expected);
      wrong = true;
    }
    expected *= 2;
  }
  return wrong;
}

}  // namespace

int main(int argc, char** argv) try {
  const std::vector<std::filesystem::path> folders(argv + 1, argv + argc);  // of plugins
  const LocalWorld world(folders);
  bool wrong = false;
  world.run({}, [&](LocalRank& rank) { wrong |= step_is_wrong(world, rank); });
  return wrong ? 1 : 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
