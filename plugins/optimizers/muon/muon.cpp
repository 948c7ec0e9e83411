#include "muon.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "tessera/ops.hpp"
#include "tessera/process_group.hpp"

namespace tessera {

namespace {

// Coefficients of the polynomial a·x + b·x³ + c·x⁵ that the iteration applies to singular values
// (Jordan 2024).
constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;

// The order of state().
constexpr std::size_t kMomentum = 0, kFirstMoment = 1, kSecondMoment = 2;

// Weights of experts are no matrix: all experts of a layer are one parameter of three dimensions.
bool is_matrix(const Parameter& parameter) {
  return parameter.local.rank() == 2 && !parameter.has_tag("embedding");
}
bool is_no_matrix(const Parameter& parameter) { return !is_matrix(parameter); }

// The group over which a matrix is cut along one of its dimensions.
struct Cut {
  ProcessGroup* group = nullptr;  // none: this rank has it whole
  int dim = 0;
};
Cut cut_of(const Parameter& parameter, const Mesh& mesh) {
  for (const Axis axis : {Axis::tensor, Axis::expert_tensor}) {
    if (!parameter.layout.cut(axis) || mesh.size(axis) == 1) continue;
    return {&mesh.group(axis), parameter.local[0] != parameter.logical[0] ? 0 : 1};
  }
  return {};
}

// x [m, n] as [n, m], sharing memory.
TensorArg transposed(const Tensor& x) {
  TensorArg arg = x.arg();
  std::swap(arg.shape[0], arg.shape[1]);
  std::swap(arg.strides[0], arg.strides[1]);
  return arg;
}

void copy(Context& cx, const TensorArg& from, const TensorArg& to) {
  ops::run(cx, CopyArgs{from, to});
}

}  // namespace

void Muon::Config::describe(Schema<Config>& s) {
  s.field("momentum", &Config::momentum, "part of a matrix's earlier gradients that goes on")
      .at_least(0)
      .below(1)
      .megatron("--muon-momentum");
  s.field("iterations", &Config::iterations, "Newton-Schulz iterations")
      .at_least(1)
      .at_most(100)
      .megatron("--muon-num-ns-steps");
  s.field("beta1", &Config::beta1, "AdamW's, for parameters that are not matrices")
      .at_least(0)
      .below(1);
  s.field("beta2", &Config::beta2, "AdamW's, for parameters that are not matrices")
      .at_least(0)
      .below(1);
  s.field("eps", &Config::eps, "AdamW's, for parameters that are not matrices").above(0);
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

std::vector<StateSpec> Muon::do_state() const {
  return {{"momentum", &is_matrix, config_.momentum},
          {"first_moment", &is_no_matrix, config_.beta1},
          {"second_moment", &is_no_matrix, config_.beta2}};
}

// Matrices have another state than the rest, so a call of their own updates them.
void Muon::do_update(Context& cx, const Shards& shards, const Tensor& scalars) const {
  if (shards.state[kSecondMoment].defined()) {
    update_elements(cx, shards, scalars);
  } else {
    update_matrices(cx, shards, scalars);
  }
}

void Muon::update_elements(Context& cx, const Shards& shards, const Tensor& scalars) const {
  auto args = update_args<AdamWArgs>(shards, scalars);
  args.first_moment = shards.state[kFirstMoment].arg();
  args.second_moment = shards.state[kSecondMoment].arg();
  args.beta1 = config_.beta1;
  args.beta2 = config_.beta2;
  args.eps = config_.eps;
  ops::run(cx, args);
}

void Muon::update_matrices(Context& cx, const Shards& shards, const Tensor& scalars) const {
  MuonMomentumArgs momentum{.scalars = scalars.arg(),
                            .ranges = shards.ranges.arg(),
                            .hyper = shards.hyper.arg(),
                            .grad = shards.grad.arg(),
                            .momentum = shards.state[kMomentum].arg(),
                            .beta = config_.momentum};
  ops::run(cx, momentum_, momentum);
  for (std::size_t i = 0; i < shards.list.size(); ++i) {
    const Parameter& parameter = *shards.list[i].parameter;
    orthogonalize_part(cx, parameter, shards.grad_of(i).view(parameter.local));
    auto apply = update_args<MuonApplyArgs>(shards, scalars);
    apply.ranges = shards.ranges.slice(0, static_cast<i64>(i), 1).arg();
    apply.hyper = shards.hyper.slice(0, static_cast<i64>(i), 1).arg();
    const Shape& shape = parameter.logical;
    apply.scale = 0.2 * std::sqrt(static_cast<double>(std::max(shape[0], shape[1])));
    ops::run(cx, apply_, apply);
  }
}

void Muon::orthogonalize_part(Context& cx, const Parameter& parameter, const Tensor& part) const {
  const auto [group, dim] = cut_of(parameter, *cx.mesh);
  if (group == nullptr) return orthogonalize(cx, part);
  // It is gathered along dimension 0, so what is cut along 1 is turned.
  Tensor own = part;
  if (dim == 1) {
    own = cx.empty({part.dim(1), part.dim(0)}, part.dtype());
    copy(cx, transposed(part), own.arg());
  }
  const Tensor whole = cx.empty({own.dim(0) * group->size(), own.dim(1)}, part.dtype());
  group->all_gather(*cx.stream, own, whole, "a matrix to orthogonalise").wait(*cx.stream);
  orthogonalize(cx, whole);
  const Tensor mine = whole.slice(0, own.dim(0) * group->index(), own.dim(0));
  copy(cx, dim == 1 ? transposed(mine) : mine.arg(), part.arg());
}

void Muon::orthogonalize(Context& cx, const Tensor& x) const {
  const bool wide = x.dim(0) <= x.dim(1);  // the smaller Gram matrix is made
  const i64 side = std::min(x.dim(0), x.dim(1));
  const Shape square = {side, side};
  const Tensor gram = cx.empty(square, x.dtype()), gram2 = cx.empty(square, x.dtype());
  const Tensor moved = cx.empty(x.shape(), x.dtype());
  ops::run(cx, normalize_, MuonNormalizeArgs{x.arg()});
  for (i64 i = 0; i < config_.iterations; ++i) {
    MatmulArgs first{.a = x.arg(), .b = x.arg(), .bias = {}, .packed = {}, .out = gram.arg()};
    first.transpose_a = !wide;
    first.transpose_b = wide;
    ops::run(cx, first);
    MatmulArgs second{
        .a = gram.arg(), .b = gram.arg(), .bias = {}, .packed = {}, .out = gram2.arg()};
    ops::run(cx, second);
    ops::run(cx, combine_, MuonCombineArgs{gram.arg(), gram2.arg(), gram.arg(), kB, kC});
    const Tensor &a = wide ? gram : x, &b = wide ? x : gram;
    MatmulArgs third{.a = a.arg(), .b = b.arg(), .bias = {}, .packed = {}, .out = moved.arg()};
    ops::run(cx, third);
    ops::run(cx, combine_, MuonCombineArgs{x.arg(), moved.arg(), x.arg(), kA, 1});
  }
}

}  // namespace tessera
