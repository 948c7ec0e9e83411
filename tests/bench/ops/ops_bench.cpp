// The operations of one device at the shapes of the GPT of train_step.toml: 2048 rows, 384 wide,
// 6 heads, vocabulary 256.
#include "tests/bench/ops/bench.hpp"

#include <tuple>

#include "tessera/random.hpp"

namespace tessera {
namespace {

constexpr i64 kRows = 2048, kHidden = 384, kHeads = 6, kHeadDim = 64, kBatch = 8, kSequence = 256;

/// Row ids of the batch.
Tensor rows_of_batch() {
  std::vector<double> ids;
  for (i64 row = 0; row < kRows; ++row) {
    ids.push_back(static_cast<double>(row_id(row / kSequence, row % kSequence)));
  }
  return Bench::get().values({kRows}, DType::i64, ids);
}

// What the shapes of a linear layer are named by: x [rows, in] · weight [out, in].
enum Product { kForward, kInputGradient, kWeightGradient };

void matmul(benchmark::State& state, Product product, i64 rows, i64 in, i64 out) {
  Bench& b = Bench::get();
  const Tensor x = b.random({rows, in}), y = b.random({rows, out}), weight = b.random({out, in});
  const Tensor bias = b.random({out}), weight_grad = b.zeros({out, in}, DType::fp32);
  MatmulArgs args;
  if (product == kForward) {
    args = {x.arg(), weight.arg(), bias.arg(), {}, y.arg(), false, true, false};
  } else if (product == kInputGradient) {
    args = {y.arg(), weight.arg(), {}, {}, x.arg(), false, false, false};
  } else {
    args = {y.arg(), x.arg(), {}, {}, weight_grad.arg(), true, false, true};
  }
  b.measure(state, args);
}

void linear_weight(benchmark::State& state, i64 in, i64 out) {
  Bench& b = Bench::get();
  const Tensor grad = b.random({kRows, out}), x = b.random({kRows, in});
  const Tensor weight_grad = b.zeros({out, in}, DType::fp32),
               bias_grad = b.zeros({out}, DType::fp32);
  b.measure(state, LinearWeightArgs{grad.arg(), x.arg(), weight_grad.arg(), bias_grad.arg()});
}

void add_matmuls() {
  struct Layer {
    const char* name;
    i64 in, out;
  };
  constexpr Layer kLayers[] = {{"qkv", 384, 1152},
                               {"proj", 384, 384},
                               {"fc1", 384, 1536},
                               {"fc2", 1536, 384},
                               {"head", 384, 256},
                               {"router", 384, 8},
                               {"tp2_qkv", 384, 576},
                               {"tp2_proj", 192, 384},
                               {"tp2_fc1", 384, 768},
                               {"tp2_fc2", 768, 384},
                               {"tp2_head", 384, 128}};
  constexpr const char* kProducts[] = {"forward", "input_gradient", "weight_gradient"};
  for (const Layer& layer : kLayers) {
    for (const Product product : {kForward, kInputGradient, kWeightGradient}) {
      const std::string name = std::string("matmul/") + layer.name + "/" + kProducts[product];
      benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) {
        matmul(state, product, kRows, layer.in, layer.out);
      });
    }
    benchmark::RegisterBenchmark(
        (std::string("linear_weight/") + layer.name).c_str(),
        [=](benchmark::State& state) { linear_weight(state, layer.in, layer.out); });
  }
}

// With bias and mean, or RMSNorm.
template <bool kCentred>
void norm(benchmark::State& state) {
  Bench& b = Bench::get();
  const Tensor x = b.random({kRows, kHidden}), out = b.zeros({kRows, kHidden});
  const Tensor weight = b.random({kHidden}), bias = b.random({kHidden});
  const Tensor mean = b.zeros({kRows}, DType::fp32), rstd = b.zeros({kRows}, DType::fp32);
  LayerNormArgs args{x.arg(), weight.arg(), bias.arg(), out.arg(), mean.arg(), rstd.arg()};
  args.centred = kCentred;
  if (!kCentred) args.bias = args.mean = {};
  b.measure(state, args);
}

template <bool kCentred>
void norm_backward(benchmark::State& state) {
  Bench& b = Bench::get();
  const Tensor grad = b.random({kRows, kHidden}), x = b.random({kRows, kHidden});
  const Tensor out = b.zeros({kRows, kHidden});
  const Tensor weight = b.random({kHidden}), mean = b.zeros({kRows}, DType::fp32),
               rstd = b.random({kRows}, DType::fp32);
  LayerNormBackwardArgs args{
      grad.arg(), x.arg(), weight.arg(), mean.arg(), rstd.arg(), out.arg(), kCentred};
  if (!kCentred) args.mean = {};
  b.measure(state, args);
}

template <bool kCentred>
void norm_backward_add(benchmark::State& state) {
  Bench& b = Bench::get();
  const Tensor grad = b.random({kRows, kHidden}), x = b.random({kRows, kHidden});
  const Tensor sum = b.random({kRows, kHidden});
  const Tensor weight = b.random({kHidden}), mean = b.zeros({kRows}, DType::fp32),
               rstd = b.random({kRows}, DType::fp32);
  LayerNormBackwardAddArgs args{
      grad.arg(), x.arg(), weight.arg(), mean.arg(), rstd.arg(), sum.arg(), sum.arg(), kCentred};
  if (!kCentred) args.mean = {};
  b.measure(state, args);
}

template <bool kCentred>
void norm_weight(benchmark::State& state) {
  Bench& b = Bench::get();
  const Tensor grad = b.random({kRows, kHidden}), x = b.random({kRows, kHidden});
  const Tensor mean = b.zeros({kRows}, DType::fp32), rstd = b.random({kRows}, DType::fp32);
  const Tensor weight_grad = b.zeros({kHidden}, DType::fp32);
  const Tensor bias_grad = b.zeros({kHidden}, DType::fp32);
  LayerNormWeightArgs args{
      grad.arg(), x.arg(), mean.arg(), rstd.arg(), weight_grad.arg(), bias_grad.arg(), kCentred};
  if (!kCentred) args.mean = args.bias_grad = {};
  b.measure(state, args);
}

void column_sum(benchmark::State& state) {
  Bench& b = Bench::get();
  const Tensor x = b.random({kRows, 4 * kHidden}), out = b.zeros({4 * kHidden}, DType::fp32);
  b.measure(state, ColumnSumArgs{x.arg(), out.arg()});
}

void add(benchmark::State& state) {
  Bench& b = Bench::get();
  const Tensor x = b.random({kRows, kHidden}), y = b.random({kRows, kHidden});
  const Tensor out = b.zeros({kRows, kHidden});
  b.measure(state, AddArgs{x.arg(), y.arg(), out.arg()});
}

void gelu(benchmark::State& state) {
  Bench& b = Bench::get();
  const Tensor x = b.random({kRows, 4 * kHidden}), out = b.zeros({kRows, 4 * kHidden});
  b.measure(state, GeluArgs{x.arg(), out.arg()});
}

void gelu_backward(benchmark::State& state) {
  Bench& b = Bench::get();
  const Tensor grad = b.random({kRows, 4 * kHidden}), x = b.random({kRows, 4 * kHidden});
  const GeluBackwardArgs args{grad.arg(), x.arg(), grad.arg()};
  b.measure(state, args);
}

void gelu_erf(benchmark::State& state) {
  Bench& b = Bench::get();
  const Tensor x = b.random({kRows, 4 * kHidden}), out = b.zeros({kRows, 4 * kHidden});
  b.measure(state, GeluErfArgs{x.arg(), out.arg()});
}

void gelu_erf_backward(benchmark::State& state) {
  Bench& b = Bench::get();
  const Tensor grad = b.random({kRows, 4 * kHidden}), x = b.random({kRows, 4 * kHidden});
  b.measure(state, GeluErfBackwardArgs{grad.arg(), x.arg(), grad.arg()});
}

void dropout(benchmark::State& state) {
  Bench& b = Bench::get();
  const Tensor x = b.random({kRows, kHidden}), residual = b.random({kRows, kHidden});
  const Tensor out = b.zeros({kRows, kHidden}), rows = rows_of_batch();
  DropoutArgs args{x.arg(), residual.arg(), rows.arg(), out.arg()};
  args.key = 7;
  args.p = 0.1;
  b.measure(state, args);
}

std::vector<double> token_ids() {
  std::vector<double> ids;
  for (u64 row = 0; row < static_cast<u64>(kRows); ++row) {
    ids.push_back(static_cast<double>(Philox::words(1, {static_cast<u32>(row), 0, 0, 0})[0] % 256));
  }
  return ids;
}

void embedding(benchmark::State& state) {
  Bench& b = Bench::get();
  const Tensor ids = b.values({kRows}, DType::i64, token_ids());
  const Tensor table = b.random({256, kHidden}), out = b.zeros({kRows, kHidden});
  b.measure(state, EmbeddingArgs{ids.arg(), table.arg(), out.arg()});
}

void embedding_weight(benchmark::State& state) {
  Bench& b = Bench::get();
  const Tensor ids = b.values({kRows}, DType::i64, token_ids());
  const Tensor grad = b.random({kRows, kHidden}), table = b.zeros({256, kHidden}, DType::fp32);
  const EmbeddingWeightArgs args{ids.arg(), grad.arg(), table.arg()};
  b.measure(state, args);
}

struct AttentionCase {
  double dropout = 0;
  i64 batch = kBatch, window = 0, documents = 0;  // in the last sample; earlier ones have one
  i64 real = 0;  // tokens of a sample that sees both sides, before its padding; 0: it sees one side
};
constexpr AttentionCase kLong{.batch = 1}, kWindow{.batch = 1, .window = 256},
    kDocuments{.batch = 1, .documents = 8}, kUneven{.batch = 2, .documents = 8},
    kFull{.batch = 4, .real = 512}, kHalfPadding{.batch = 4, .real = 256};

/// The first or the last position of each query's document. Those of a sample are equally long.
Tensor limits(const AttentionCase& c, bool last) {
  std::vector<double> positions;
  const i64 sequence = kRows / c.batch;
  for (i64 row = 0; row < kRows; ++row) {
    const i64 length = row / sequence == c.batch - 1 ? sequence / c.documents : sequence;
    const i64 first = row % sequence / length * length;
    positions.push_back(static_cast<double>(last ? first + length - 1 : first));
  }
  return Bench::get().values({c.batch, sequence}, DType::i32, positions);
}

/// Of a sample that sees both sides: the last position that a token sees; none of padding's.
Tensor ends(const AttentionCase& c) {
  std::vector<double> positions;
  const i64 sequence = kRows / c.batch;
  for (i64 row = 0; row < kRows; ++row) {
    positions.push_back(static_cast<double>(row % sequence < c.real ? c.real - 1 : -1));
  }
  return Bench::get().values({c.batch, sequence}, DType::i32, positions);
}

struct AttentionTensors {
  i64 batch;
  Tensor qkv, gradients, rows, out, lse, grad, first, last;
  AttentionArgs forward;
  explicit AttentionTensors(Bench& b, const AttentionCase& c)
      : batch(c.batch),
        qkv(b.random({kRows, 3 * kHidden})),
        gradients(b.zeros({kRows, 3 * kHidden})),
        rows(rows_of_batch()),
        out(b.zeros({kRows, kHidden})),
        lse(b.zeros({batch, kHeads, kRows / batch}, DType::fp32)),
        grad(b.random({kRows, kHidden})) {
    forward = {section(qkv, 0),
               section(qkv, 1),
               section(qkv, 2),
               rows.arg(),
               {},
               {},
               section(out, 0),
               lse.arg(),
               {}};
    forward.spec.scale = 0.125;
    forward.spec.window = c.window;
    forward.spec.dropout = c.dropout;
    forward.spec.key = 11;
    forward.spec.causal = c.real == 0;
    if (c.real > 0) {
      last = ends(c);
      forward.last = last.arg();
    }
    if (c.documents == 0) return;
    first = limits(c, false);
    last = limits(c, true);
    forward.first = first.arg();
    forward.last = last.arg();
  }
  /// The [b, s, heads, d] view of a part of packed projections.
  TensorArg section(const Tensor& packed, i64 part) const {
    TensorArg arg = packed.slice(1, part * kHidden, kHidden).arg();
    const i64 stride = arg.strides[0];
    arg.rank = 4;
    const i64 sequence = kRows / batch;
    const i64 shape[] = {batch, sequence, kHeads, kHeadDim};
    const i64 strides[] = {sequence * stride, stride, kHeadDim, 1};
    for (int d = 0; d < 4; ++d) {
      arg.shape[d] = shape[d];
      arg.strides[d] = strides[d];
    }
    return arg;
  }
};

void attention(benchmark::State& state, const AttentionCase& c) {
  Bench& b = Bench::get();
  const AttentionTensors t(b, c);
  b.measure(state, t.forward);
}

void attention_backward(benchmark::State& state, const AttentionCase& c) {
  Bench& b = Bench::get();
  const AttentionTensors t(b, c);
  const AttentionArgs& f = t.forward;
  AttentionBackwardArgs args{f.q,
                             f.k,
                             f.v,
                             f.row_ids,
                             f.first,
                             f.last,
                             f.out,
                             f.lse,
                             t.section(t.grad, 0),
                             t.section(t.gradients, 0),
                             t.section(t.gradients, 1),
                             t.section(t.gradients, 2),
                             f.spec};
  b.measure(state, args);
}

// Once apart and once at once, over the vocabulary of the small model or of GPT-2.
struct Entropy {
  i64 n, v;
  Tensor logits, targets, mask, one, max, sums, out;
  explicit Entropy(Bench& b, i64 rows, i64 vocabulary)
      : n(rows),
        v(vocabulary),
        logits(b.random({n, v})),
        targets(b.values({n}, DType::i64, std::vector<double>(static_cast<std::size_t>(n), 7))),
        mask(b.values({n}, DType::u8, std::vector<double>(static_cast<std::size_t>(n), 1))),
        one(b.values({1}, DType::fp64, {1})),
        max(b.zeros({n}, DType::fp32)),
        sums(b.zeros({n, 2}, DType::fp32)),
        out(b.zeros({n, v})) {}
};

void cross_entropy_apart(benchmark::State& state, i64 rows, i64 vocabulary) {
  Bench& b = Bench::get();
  const Entropy e(b, rows, vocabulary);
  const CrossEntropyMaxArgs largest{e.logits.arg(), e.max.arg(), e.v};
  const CrossEntropySumsArgs sums{
      e.logits.arg(), e.targets.arg(), e.max.arg(), e.sums.arg(), 0, e.v};
  const CrossEntropyGradArgs grad{e.logits.arg(),
                                  e.targets.arg(),
                                  e.max.arg(),
                                  e.sums.arg(),
                                  e.mask.arg(),
                                  e.one.arg(),
                                  e.one.arg(),
                                  e.out.arg(),
                                  0,
                                  e.v};
  const Operation<CrossEntropyMaxArgs> run_largest(b.device());
  const Operation<CrossEntropySumsArgs> run_sums(b.device());
  const Operation<CrossEntropyGradArgs> run_grad(b.device());
  for (auto _ : state) {
    b.launch(run_largest, largest);
    b.launch(run_sums, sums);
    b.launch(run_grad, grad);
  }
}

void cross_entropy_at_once(benchmark::State& state, i64 rows, i64 vocabulary) {
  Bench& b = Bench::get();
  const Entropy e(b, rows, vocabulary);
  b.measure(state,
            WholeCrossEntropyArgs{e.logits.arg(),
                                  e.targets.arg(),
                                  e.mask.arg(),
                                  e.one.arg(),
                                  e.one.arg(),
                                  e.sums.arg(),
                                  e.out.arg(),
                                  e.v});
}

constexpr i64 kParameters = 10'800'000;

void sum_squares(benchmark::State& state) {
  Bench& b = Bench::get();
  const Tensor x = b.zeros({kParameters}, DType::fp32), out = b.zeros({1}, DType::fp64);
  b.measure(state, SumSquaresArgs{x.arg(), {}, out.arg()});
}

void adamw(benchmark::State& state) {
  Bench& b = Bench::get();
  std::vector<double> step(static_cast<std::size_t>(step_scalar::kCount), 0.0);
  for (const i64 one :
       {step_scalar::kSteps, step_scalar::kLossScale, step_scalar::kGradientScale}) {
    step[static_cast<std::size_t>(one)] = 1;
  }
  step[static_cast<std::size_t>(step_scalar::kLearningRate)] = 1e-3;
  const Tensor scalars = b.values({step_scalar::kCount}, DType::fp64, step);
  const auto fp32 = [&] { return b.zeros({kParameters}, DType::fp32); };
  const Tensor grad = fp32(), main = fp32(), first = fp32(), second = fp32();
  const Tensor compute = b.zeros({kParameters});
  const Tensor ranges = b.values({1, 4}, DType::i64, {kParameters, 0, 0, 0});
  const Tensor hyper = b.values({1, 2}, DType::fp64, {1, 0});
  const AdamWArgs args{scalars.arg(),
                       ranges.arg(),
                       hyper.arg(),
                       grad.arg(),
                       main.arg(),
                       first.arg(),
                       second.arg(),
                       compute.dtype() == DType::fp32 ? TensorArg{} : compute.arg()};
  b.measure(state, args);
}

void add_all() {
  add_matmuls();
  using Function = void (*)(benchmark::State&);
  const std::pair<const char*, Function> kPlain[] = {
      {"layernorm", norm<true>},
      {"layernorm_backward", norm_backward<true>},
      {"layernorm_backward_add", norm_backward_add<true>},
      {"layernorm_weight", norm_weight<true>},
      {"rmsnorm", norm<false>},
      {"rmsnorm_backward", norm_backward<false>},
      {"rmsnorm_backward_add", norm_backward_add<false>},
      {"rmsnorm_weight", norm_weight<false>},
      {"column_sum", column_sum},
      {"add", add},
      {"gelu", gelu},
      {"gelu_backward", gelu_backward},
      {"gelu_erf", gelu_erf},
      {"gelu_erf_backward", gelu_erf_backward},
      {"dropout", dropout},
      {"embedding", embedding},
      {"embedding_weight", embedding_weight},
      {"sum_squares", sum_squares},
      {"adamw", adamw}};
  for (const auto& [name, function] : kPlain) benchmark::RegisterBenchmark(name, function);
  for (const auto& [name, rows, vocabulary] :
       {std::tuple{"", kRows, i64{256}}, std::tuple{"/gpt2", i64{1024}, i64{50304}}}) {
    benchmark::RegisterBenchmark(
        (std::string("cross_entropy_apart") + name).c_str(),
        [=](benchmark::State& state) { cross_entropy_apart(state, rows, vocabulary); });
    benchmark::RegisterBenchmark(
        (std::string("whole_cross_entropy") + name).c_str(),
        [=](benchmark::State& state) { cross_entropy_at_once(state, rows, vocabulary); });
  }
  const std::pair<const char*, AttentionCase> kAttention[] = {{"", {}},
                                                              {"/dropout", {.dropout = 0.1}},
                                                              {"/2048", kLong},
                                                              {"/2048/window", kWindow},
                                                              {"/2048/documents", kDocuments},
                                                              {"/1024/uneven", kUneven},
                                                              {"/512/full", kFull},
                                                              {"/512/half", kHalfPadding}};
  for (const auto& [suffix, c] : kAttention) {
    benchmark::RegisterBenchmark((std::string("attention") + suffix).c_str(),
                                 [c = c](benchmark::State& state) { attention(state, c); });
    benchmark::RegisterBenchmark(
        (std::string("attention_backward") + suffix).c_str(),
        [c = c](benchmark::State& state) { attention_backward(state, c); });
  }
}

const bool kAdded = (add_all(), true);

}  // namespace
}  // namespace tessera
