#pragma once
// The rule of an optimizer on all shards at once. A rule says how the gradient of an element
// becomes the direction of its step:
//
//   struct Rule {
//     static constexpr int kStates = 1;      // tensors of state, at most 2
//     static constexpr bool kScaled = true;  // gradients are still to be scaled
//     template <class C> __device__ Factors factors(const double* scalars) const;
//     template <class C> __device__ static C direction(const Factors&, C grad, C& first, C&
//     second);
//   };
//
// Factors are computed once a block, and have `step`: what a direction is multiplied by, for each
// unit of a shard's scale of the learning rate. main -= step · direction + decay · main.
#include "packs.hpp"
#include "shards.hpp"
#include "tessera/ops/update.hpp"

namespace tessera::cuda::rules {

inline constexpr int kThreads = 256;
inline constexpr int kN = 4;  // neighbouring elements of a thread

template <class Rule, class T, class S>
struct Update {
  Rule rule;
  ShardTable table;
  const double* scalars;
  T *grad, *main;
  S *first, *second;  // the states that the rule has
  void* compute;      // optional
  DType compute_dtype;
};

/// The rounded copy of main.
template <class C>
__device__ void store_as(DType dtype, void* to, i64 at, const C (&values)[kN], i64 count) {
  const auto put = [&]<class To>(To* all) {
    store(all + at, values, count, aligned<To, kN>(all + at));
  };
  if (dtype == DType::bf16) {
    put(static_cast<BFloat*>(to));
  } else if (dtype == DType::fp16) {
    put(static_cast<Half*>(to));
  } else if (dtype == DType::fp32) {
    put(static_cast<float*>(to));
  } else {
    put(static_cast<double*>(to));
  }
}

template <class Rule, class T, class S>
__global__ void update(Update<Rule, T, S> of) {
  using C = Compute<T>;
  using Factors = decltype(of.rule.template factors<C>(of.scalars));
  constexpr int kStates = Rule::kStates;
  const bool skip = of.scalars[step_scalar::kFoundInf] != 0;
  auto& factors = shared<Factors>();
  if (threadIdx.x == 0) factors = of.rule.template factors<C>(of.scalars);
  __syncthreads();
  const Factors mine = factors;
  const C unscale = Rule::kScaled ? static_cast<C>(of.scalars[step_scalar::kGradientScale]) : C(1);
  const double lr = of.scalars[step_scalar::kLearningRate];
  for_each_shard(of.table, [&](const ShardRun& run) {
    T *grad = of.grad + run.grad, *main = of.main + run.main;
    S* first = kStates > 0 ? of.first + run.state : nullptr;
    S* second = kStates > 1 ? of.second + run.state : nullptr;
    const C step = static_cast<C>(mine.step * run.hyper.lr_scale);
    const C decay = static_cast<C>(lr * run.hyper.lr_scale * run.hyper.weight_decay);
    const bool whole = aligned<T, kN>(grad) && aligned<T, kN>(main) && aligned<S, kN>(first) &&
                       aligned<S, kN>(second);
    for_packs<kN>(run.length, [&](i64 i, i64 count) {
      const C zeros[kN] = {};
      if (!skip) {
        C g[kN], w[kN], m[kN] = {}, v[kN] = {};
        load(g, grad + i, count, whole);
        load(w, main + i, count, whole);
        if constexpr (kStates > 0) load(m, first + i, count, whole);
        if constexpr (kStates > 1) load(v, second + i, count, whole);
        for (int n = 0; n < kN; ++n) {
          const C direction = Rule::direction(mine, g[n] * unscale, m[n], v[n]);
          w[n] -= multiply_add(step, direction, w[n] * decay);
        }
        if constexpr (kStates > 0) store(first + i, m, count, whole);
        if constexpr (kStates > 1) store(second + i, v, count, whole);
        store(main + i, w, count, whole);
        if (of.compute != nullptr) store_as(of.compute_dtype, of.compute, run.grad + i, w, count);
      }
      store(grad + i, zeros, count, whole);
    });
  });
}

/// Calls f with a value of main's type and of the state's.
template <class Args, class F>
void with_types(const Args& args, DType state, F&& f) {
  const auto with_main = [&]<class T>(T main) {
    with_floating(Args::kName, state, [&]<class S>(S of_state) { f(main, of_state); });
  };
  if (args.main.dtype == DType::fp64) return with_main(double{});
  require(args.main.dtype == DType::fp32,
          "it updates fp32 or fp64, not {}: keep main parameters and gradients in fp32",
          dtype_name(args.main.dtype));
  with_main(float{});
}

template <class T, class S, class Rule, class Args>
void launch_update(const Args& args,
                   const Rule& rule,
                   const TensorArg& first,
                   const TensorArg& second,
                   cudaStream_t stream) {
  const Update<Rule, T, S> of{.rule = rule,
                              .table = ShardTable(args.ranges, args.hyper),
                              .scalars = args.scalars.template as<double>(),
                              .grad = args.grad.template as<T>(),
                              .main = args.main.template as<T>(),
                              .first = first.as<S>(),
                              .second = second.as<S>(),
                              .compute = args.compute.address,
                              .compute_dtype = args.compute.dtype};
  if (of.table.count == 0) return;
  using Factors = decltype(rule.template factors<Compute<T>>(nullptr));
  launch(update<Rule, T, S>,
         {.blocks = shard_blocks(args.grad.elements()),
          .threads = kThreads,
          .shared_bytes = static_cast<i64>(sizeof(Factors))},
         stream,
         of);
}

}  // namespace tessera::cuda::rules
