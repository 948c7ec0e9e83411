// Three updates in double precision against the formulas of the paper, written out for whole
// matrices: on one rank, and on two that cut rows or columns. Vectors and experts too.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <exception>
#include <string>
#include <tessera/ops.hpp>
#include <tessera/optimizer.hpp>
#include <tessera/testing/local_world.hpp>
#include <tessera/testing/workbench.hpp>

namespace {

using namespace tessera;
using namespace tessera::testing;

constexpr double kRate = 0.1, kScale = 0.5, kDecay = 0.01;

using Values = std::vector<double>;

// b matrices of m × n, as the paper has them: sums, not means.
struct Reference {
  i64 b, m, n;
  Values x, r = Values(static_cast<std::size_t>(b * m)),
            c = Values(static_cast<std::size_t>(b * n));

  void step(const Values& grad, int t) {
    for (i64 k = 0; k < b; ++k) {
      double *w = &x[k * m * n], *rows = &r[k * m], *columns = &c[k * n];
      const double* g = &grad[k * m * n];
      const double beta = 1 - std::pow(t, -0.8);
      const auto square = [&](i64 at) { return std::pow(kScale * g[at], 2) + 1e-30; };
      double all = 0, of_w = 0, of_u = 0;
      for (i64 i = 0; i < m; ++i) rows[i] *= beta;
      for (i64 j = 0; j < n; ++j) columns[j] *= beta;
      for (i64 i = 0; i < m * n; ++i) {
        rows[i / n] += (1 - beta) * square(i);
        columns[i % n] += (1 - beta) * square(i);
        of_w += w[i] * w[i];
      }
      for (i64 i = 0; i < m; ++i) all += rows[i];
      Values u;
      for (i64 i = 0; i < m * n; ++i) {
        u.push_back(kScale * g[i] / std::sqrt(rows[i / n] * columns[i % n] / all));
        of_u += u.back() * u.back();
      }
      const auto size = static_cast<double>(m * n);
      const double alpha = std::max(1e-3, std::sqrt(of_w / size)) * kRate;
      const double clip = std::max(1.0, std::sqrt(of_u / size));
      for (i64 i = 0; i < m * n; ++i) w[i] -= alpha * u[i] / clip + kRate * kDecay * w[i];
    }
  }
};

// The elements of `whole` that this rank holds, 0 in its padding.
Values part_of(const LogicalTensor& tensor, const Values& whole) {
  Values part(static_cast<std::size_t>(tensor.local.elements()), 0);
  for (const ElementRun& run : tensor.layout.runs()) {
    std::copy_n(&whole[run.logical], run.length, &part[run.local]);
  }
  return part;
}

bool differs(const std::string& what, const Values& is, const Values& expected) {
  bool wrong = is.size() != expected.size();
  for (std::size_t i = 0; i < is.size() && !wrong; ++i) {
    wrong = !(std::abs(is[i] - expected[i]) <= 1e-13 * std::max(1.0, std::abs(expected[i])));
  }
  if (wrong) std::fprintf(stderr, "%s is not what the formula gives\n", what.c_str());
  return wrong;
}

struct Case {
  const char* name;
  Shape shape;
  std::vector<Split> split;
};

bool update_is_wrong(const LocalWorld& world, LocalRank& rank, const Case& of) {
  RuleArguments arguments{&rank.device()};
  const auto rule = world.make<UpdateRule>("adafactor", arguments, {{"weight_decay", kDecay}});
  Parameter parameter;
  parameter.name = of.name;
  parameter.logical = of.shape;
  parameter.layout = ParameterLayout(of.shape, of.split, Placement::replicated(), rank.mesh());
  parameter.local = parameter.layout.storage();
  const i64 all = of.shape.elements(), n = of.shape[-1];
  const i64 m = of.shape.rank() > 1 ? of.shape[-2] : 1;
  Reference reference{all / (m * n), m, n, {}};
  for (i64 i = 0; i < all; ++i) reference.x.push_back(std::sin(static_cast<double>(i)));

  const i64 elements = parameter.local.elements();
  Shards shards;
  shards.main = rank.tensor({elements}, DType::fp64, part_of(parameter, reference.x));
  shards.grad = rank.tensor({elements}, DType::fp64, Values(static_cast<std::size_t>(elements)));
  shards.list = {{.parameter = &parameter, .range = {0, elements}}};
  shards.list[0].hyper.weight_decay = rule->weight_decay();
  const std::vector<StateSpec> states = rule->state();
  shards.allocate(rank.device(), rank.mesh(), states);
  Values values(step_scalar::kCount, 0);
  values[step_scalar::kLearningRate] = kRate;
  values[step_scalar::kGradientScale] = kScale;
  const Tensor scalars = rank.tensor({step_scalar::kCount}, DType::fp64, values);
  const auto update = [&](const Values& grad) {
    write(scalars, values);
    write(shards.grad, part_of(parameter, grad));
    rule->update(rank.context(), shards, scalars);
  };
  bool wrong = false;
  const auto compare = [&](const std::string& when) {
    const std::string name = std::string(of.name) + when;
    wrong |= differs(name, read(shards.main), part_of(parameter, reference.x));
    wrong |=
        differs("grad of " + name, read(shards.grad), Values(static_cast<std::size_t>(elements)));
    Values rows = reference.r, columns = reference.c;
    for (double& row : rows) row /= static_cast<double>(n);
    for (double& column : columns) column /= static_cast<double>(m);
    const Values* expected[] = {&rows, &columns};
    for (std::size_t s = 0; s < states.size(); ++s) {
      wrong |= differs(states[s].name + " of " + name,
                       read(shards.state_of(s, 0)),
                       part_of(*shards.own[s][0].logical, *expected[s]));
    }
  };
  for (int t = 1; t <= 3; ++t) {
    Values grad;
    for (i64 i = 0; i < all; ++i) grad.push_back(std::cos(static_cast<double>(3 * i + t)) * t);
    values[step_scalar::kSteps] = t;
    update(grad);
    reference.step(grad, t);
    compare(" after step " + std::to_string(t));
  }
  values[step_scalar::kFoundInf] = 1;  // a skipped step drops its gradients, and nothing else
  update(Values(static_cast<std::size_t>(all), HUGE_VAL));
  compare(" after a skipped step");
  return wrong;
}

}  // namespace

int main(int argc, char** argv) try {
  const std::vector<std::filesystem::path> folders(argv + 1, argv + argc);  // of plugins
  const LocalWorld world(folders);
  const Split rows{.dim = 0}, columns{.dim = 1}, padded{.dim = 0, .pad_to = 4};
  const Split experts{.dim = 0, .axis = Axis::expert}, inner{.dim = 2, .axis = Axis::expert_tensor};
  const Case cases[] = {{"whole matrix", {6, 4}, {}},
                        {"matrix cut by rows", {6, 4}, {rows}},
                        {"matrix cut by columns", {6, 4}, {columns}},
                        {"matrix with padding", {5, 4}, {padded}},
                        {"two sections", {8, 3}, {{.dim = 0, .sections = {4, 4}}}},
                        {"vector", {6}, {}},
                        {"cut vector", {6}, {rows}},
                        {"experts", {2, 3, 4}, {experts, inner}}};
  std::atomic<bool> wrong{false};
  for (const char* device : {"reference", "cpu"}) {
    for (const i64 ranks : {1, 2}) {
      LocalWorldOptions options;
      options.device = device;
      options.layout = {.world = ranks, .tensor = ranks};
      world.run(options, [&](LocalRank& rank) {
        for (const Case& of : cases) {
          if (update_is_wrong(world, rank, of)) wrong = true;
        }
      });
    }
  }
  return wrong ? 1 : 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
