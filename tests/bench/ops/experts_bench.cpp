// The operations of a layer of experts on one rank, but for dense ones: 2048 tokens, each with 2 of
// 8 experts that have equally many rows, 384 wide, SwiGLU over 1536 features (row m of
// train_step.py).
#include "tests/bench/ops/bench.hpp"

namespace tessera {
namespace {

constexpr i64 kTokens = 2048, kChoices = 2, kExperts = 8, kRows = kTokens * kChoices;
constexpr i64 kHidden = 384, kInner = 1536;

/// Where the rows of a batch go.
struct Routes {
  Tensor logits, experts, weights, counts, order, inverse;
  RouterSpec spec{.top_k = kChoices};
  explicit Routes(Bench& b)
      : logits(b.random({kTokens, kExperts})),
        experts(b.values({kTokens, kChoices}, DType::i32, chosen())),
        weights(b.random({kTokens, kChoices}, DType::fp32)),
        counts(b.values({kExperts}, DType::i64, std::vector<double>(kExperts, kRows / kExperts))),
        order(b.zeros({kRows}, DType::i32)),
        inverse(b.zeros({kTokens, kChoices}, DType::i32)) {
    b.launch(Operation<SortByExpertArgs>(b.device()), sort());
    b.device().synchronize(b.device().stream());
  }
  static std::vector<double> chosen() {
    std::vector<double> experts;
    for (i64 choice = 0; choice < kRows; ++choice) {
      experts.push_back(static_cast<double>((choice * 5) % kExperts));
    }
    return experts;
  }
  SortByExpertArgs sort() const { return {experts.arg(), order.arg(), inverse.arg(), kExperts}; }
};

void topk_experts(benchmark::State& state) {
  Bench& b = Bench::get();
  const Routes r(b);
  b.measure(state, TopkExpertsArgs{r.logits.arg(), {}, r.experts.arg(), r.spec});
}

void router_weights(benchmark::State& state) {
  Bench& b = Bench::get();
  const Routes r(b);
  b.measure(state, RouterWeightsArgs{r.logits.arg(), r.experts.arg(), r.weights.arg(), r.spec});
}

void router_weights_backward(benchmark::State& state) {
  Bench& b = Bench::get();
  const Routes r(b);
  const Tensor out = b.zeros({kTokens, kExperts});
  b.measure(state,
            RouterWeightsBackwardArgs{
                r.weights.arg(), r.logits.arg(), r.experts.arg(), out.arg(), r.spec});
}

void expert_counts(benchmark::State& state) {
  Bench& b = Bench::get();
  const Routes r(b);
  b.measure(state, ExpertCountsArgs{r.experts.arg(), r.counts.arg(), kExperts, {}});
}

void sort_by_expert(benchmark::State& state) {
  Bench& b = Bench::get();
  const Routes r(b);
  b.measure(state, r.sort());
}

// Permutes rows of tokens or, one wide in FP32, their weights.
void permute_rows(benchmark::State& state, bool of_tokens) {
  Bench& b = Bench::get();
  const Routes r(b);
  const Tensor x = of_tokens ? b.random({kTokens, kHidden}) : r.weights.view({kRows, 1});
  const Tensor out = of_tokens ? b.zeros({kRows, kHidden}) : b.zeros({kRows, 1}, DType::fp32);
  b.measure(state, PermuteRowsArgs{x.arg(), r.order.arg(), out.arg(), of_tokens ? kChoices : 1});
}

void unpermute_rows(benchmark::State& state) {
  Bench& b = Bench::get();
  const Routes r(b);
  const Tensor y = b.random({kRows, kHidden}), out = b.zeros({kTokens, kHidden});
  b.measure(state, UnpermuteRowsArgs{y.arg(), r.inverse.arg(), out.arg()});
}

void weighted_activation(benchmark::State& state) {
  Bench& b = Bench::get();
  const Tensor x = b.random({kRows, 2 * kInner}), out = b.zeros({kRows, kInner});
  const Tensor weights = b.random({kRows}, DType::fp32);
  b.measure(state, WeightedActivationArgs{x.arg(), weights.arg(), out.arg()});
}

void weighted_activation_backward(benchmark::State& state) {
  Bench& b = Bench::get();
  const Tensor grad = b.random({kRows, kInner}), x = b.random({kRows, 2 * kInner});
  const Tensor weights = b.random({kRows}, DType::fp32), x_grad = b.zeros({kRows, 2 * kInner});
  const Tensor weights_grad = b.zeros({kRows}, DType::fp32);
  const WeightedActivationBackwardArgs args{
      grad.arg(), x.arg(), weights.arg(), x_grad.arg(), weights_grad.arg()};
  b.measure(state, args);
}

// x [rows, in] · weight [experts, in, out].
void grouped_matmul(benchmark::State& state, i64 in, i64 out, bool transposed) {
  Bench& b = Bench::get();
  const Routes r(b);
  const Tensor x = b.random({kRows, in}), y = b.random({kRows, out});
  const Tensor weight = b.random({kExperts, in, out});
  const TensorArg from = transposed ? y.arg() : x.arg(), to = transposed ? x.arg() : y.arg();
  b.measure(state, GroupedMatmulArgs{from, r.counts.arg(), weight.arg(), to, transposed});
}

void grouped_weight(benchmark::State& state, i64 in, i64 out) {
  Bench& b = Bench::get();
  const Routes r(b);
  const Tensor x = b.random({kRows, in}), grad = b.random({kRows, out});
  const Tensor sums = b.zeros({kExperts, in, out}, DType::fp32);
  b.measure(state, GroupedWeightArgs{x.arg(), r.counts.arg(), grad.arg(), sums.arg()});
}

void add(const std::string& name, const std::function<void(benchmark::State&)>& function) {
  benchmark::RegisterBenchmark(name.c_str(), function);
}

void add_all() {
  add("topk_experts", topk_experts);
  add("router_weights", router_weights);
  add("router_weights_backward", router_weights_backward);
  add("expert_counts", expert_counts);
  add("sort_by_expert", sort_by_expert);
  add("permute_rows", [](auto& state) { permute_rows(state, true); });
  add("permute_rows/weights", [](auto& state) { permute_rows(state, false); });
  add("unpermute_rows", unpermute_rows);
  add("weighted_activation", weighted_activation);
  add("weighted_activation_backward", weighted_activation_backward);
  struct Layer {
    const char* name;
    i64 in, out;
  };
  for (const auto& [name, in, out] :
       {Layer{"up", kHidden, 2 * kInner}, Layer{"down", kInner, kHidden}}) {
    const std::string of = std::string("/") + name;
    add("grouped_matmul" + of + "/forward",
        [in = in, out = out](auto& state) { grouped_matmul(state, in, out, false); });
    add("grouped_matmul" + of + "/input_gradient",
        [in = in, out = out](auto& state) { grouped_matmul(state, in, out, true); });
    add("grouped_weight" + of,
        [in = in, out = out](auto& state) { grouped_weight(state, in, out); });
  }
}

const bool kAdded = (add_all(), true);

}  // namespace
}  // namespace tessera
