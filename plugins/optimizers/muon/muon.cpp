#include "muon.hpp"

#include <algorithm>
#include <cmath>

#include "tessera/ops.hpp"

namespace tessera {

namespace {

// Of the polynomial a·x + b·x³ + c·x⁵ that the iteration applies to singular values (Jordan 2024).
constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;

bool is_matrix(const Parameter& parameter) {
  return parameter.local.rank() == 2 && !parameter.has_tag("embedding");
}

}  // namespace

void Muon::Config::describe(Schema<Config>& s) {
  s.field("momentum", &Config::momentum, "part of a matrix's earlier gradients that goes on")
      .at_least(0)
      .below(1)
      .megatron("--muon-momentum");
  s.field("iterations", &Config::iterations, "Newton-Schulz iterations")
      .at_least(1)
      .megatron("--muon-num-ns-steps");
  s.field("beta1", &Config::beta1, "of AdamW, for what is no matrix").at_least(0).below(1);
  s.field("beta2", &Config::beta2, "of AdamW, for what is no matrix").at_least(0).below(1);
  s.field("eps", &Config::eps, "of AdamW, for what is no matrix").above(0);
  s.field("weight_decay",
          &Config::weight_decay,
          "part of a weight that decays, times the learning rate; not of biases and norms")
      .at_least(0)
      .megatron("--weight-decay");
}

Muon::Muon(const Config& config, RuleArguments& arguments)
    : config_(config),
      momentum_(*arguments.device),
      normalize_(*arguments.device),
      combine_(*arguments.device),
      apply_(*arguments.device) {}

void Muon::update(Context& cx, const Shards& shards, const Tensor& scalars) const {
  for (std::size_t i = 0; i < shards.list.size(); ++i) {
    if (is_matrix(*shards.list[i].parameter)) {
      update_matrix(cx, shards, i, scalars);
    } else {
      update_elements(cx, shards, i, scalars);
    }
  }
}

void Muon::update_elements(Context& cx,
                           const Shards& shards,
                           std::size_t i,
                           const Tensor& scalars) const {
  const auto row = static_cast<i64>(i);
  AdamWArgs args;
  args.scalars = scalars.arg();
  args.ranges = shards.ranges.slice(0, row, 1).arg();
  args.hyper = shards.hyper.slice(0, row, 1).arg();
  args.grad = shards.grad.arg();
  args.main = shards.main.arg();
  args.first_moment = shards.state[0].arg();
  args.second_moment = shards.state[1].arg();
  if (shards.compute.defined()) args.compute = shards.compute.arg();
  args.beta1 = config_.beta1;
  args.beta2 = config_.beta2;
  args.eps = config_.eps;
  ops::run(cx, args);
}

void Muon::update_matrix(Context& cx,
                         const Shards& shards,
                         std::size_t i,
                         const Tensor& scalars) const {
  const Shape& shape = shards.list[i].parameter->local;
  const Tensor x = cx.empty(shape, shards.main.dtype());
  const Tensor main = shards.part(shards.main, i);
  MuonMomentumArgs momentum{.scalars = scalars.arg(),
                            .grad = shards.part(shards.grad, i).arg(),
                            .momentum = shards.part(shards.state[0], i).arg(),
                            .out = x.arg(),
                            .beta = config_.momentum};
  ops::run(cx, momentum_, momentum);
  orthogonalize(cx, x);
  MuonApplyArgs apply{.scalars = scalars.arg(),
                      .hyper = shards.hyper.slice(0, static_cast<i64>(i), 1).arg(),
                      .x = x.arg(),
                      .main = main.arg(),
                      .scale = 0.2 * std::sqrt(static_cast<double>(std::max(shape[0], shape[1])))};
  ops::run(cx, apply_, apply);
  if (!shards.compute.defined()) return;
  CopyArgs round{main.arg(), shards.part(shards.compute, i).arg()};
  ops::run(cx, round);
}

void Muon::orthogonalize(Context& cx, const Tensor& x) const {
  const bool wide = x.dim(0) <= x.dim(1);  // the smaller Gram matrix is made
  const i64 side = std::min(x.dim(0), x.dim(1));
  const Shape square = {side, side};
  const Tensor gram = cx.empty(square, x.dtype()), gram2 = cx.empty(square, x.dtype());
  const Tensor moved = cx.empty(x.shape(), x.dtype());
  MuonNormalizeArgs normalize{x.arg()};
  ops::run(cx, normalize_, normalize);
  for (i64 i = 0; i < config_.iterations; ++i) {
    MatmulArgs first{.a = x.arg(), .b = x.arg(), .bias = {}, .out = gram.arg()};
    first.transpose_a = !wide;
    first.transpose_b = wide;
    ops::run(cx, first);
    MatmulArgs second{.a = gram.arg(), .b = gram.arg(), .bias = {}, .out = gram2.arg()};
    ops::run(cx, second);
    MuonCombineArgs polynomial{gram.arg(), gram2.arg(), gram.arg(), kB, kC};
    ops::run(cx, combine_, polynomial);
    const Tensor &a = wide ? gram : x, &b = wide ? x : gram;
    MatmulArgs third{.a = a.arg(), .b = b.arg(), .bias = {}, .out = moved.arg()};
    ops::run(cx, third);
    MuonCombineArgs next{x.arg(), moved.arg(), x.arg(), kA, 1};
    ops::run(cx, combine_, next);
  }
}

}  // namespace tessera
