// The products of the experts of a mixture, in one launch and as a loop of products, under loads of
// several kinds: 8 experts, 2048 tokens with 2 choices each, 384 wide, SwiGLU over 1536 features.
#include <array>

#include "tests/bench/ops/bench.hpp"

namespace tessera {
namespace {

constexpr i64 kExperts = 8, kRows = 4096;
using Load = std::array<i64, kExperts>;
constexpr Load kBalanced = {512, 512, 512, 512, 512, 512, 512, 512};
constexpr Load kHot = {256, 2560, 300, 0, 212, 280, 248, 240};

enum Product { kForward, kInputGradient, kWeightGradient };

/// Rows meet the matrices of their experts, [in, out] each.
struct Tensors {
  Tensor x, y, weight, weight_grad, counts;
  Tensors(Bench& b, i64 in, i64 out)
      : x(b.random({kRows, in})),
        y(b.random({kRows, out})),
        weight(b.random({kExperts, in, out})),
        weight_grad(b.zeros({kExperts, in, out}, DType::fp32)),
        counts(b.values({kExperts}, DType::i64, std::vector<double>(kExperts, 0))) {}
};

/// Moves rows from one expert to the next, so that no load comes again for a long time.
void change(Load& load, i64 launch) {
  const auto from = static_cast<std::size_t>(launch % kExperts);
  const i64 moved = std::min<i64>(load[from], 1 + launch % 7);
  load[from] -= moved;
  load[(from + 1) % kExperts] += moved;
}

void grouped(benchmark::State& state, Product product, i64 in, i64 out, Load load, bool changing) {
  Bench& b = Bench::get();
  const Tensors t(b, in, out);
  const Operation<GroupedMatmulArgs> multiply(b.device());
  const Operation<GroupedWeightArgs> add(b.device());
  i64 launches = 0;
  const auto run = [&] {
    if (changing) change(load, launches++);
    b.device().write(t.counts, load.data());
    if (product == kForward) {
      b.launch(multiply, {t.x.arg(), t.counts.arg(), t.weight.arg(), t.y.arg()});
    } else if (product == kInputGradient) {
      b.launch(multiply, {t.y.arg(), t.counts.arg(), t.weight.arg(), t.x.arg(), true});
    } else {
      b.launch(add, {t.x.arg(), t.counts.arg(), t.y.arg(), t.weight_grad.arg()});
    }
    b.device().synchronize(b.device().stream());
  };
  run();
  for (auto _ : state) run();
}

void looped(benchmark::State& state, Product product, i64 in, i64 out, Load load, bool changing) {
  Bench& b = Bench::get();
  const Tensors t(b, in, out);
  const Operation<MatmulArgs> multiply(b.device());
  i64 launches = 0;
  const auto run = [&] {
    if (changing) change(load, launches++);
    i64 row = 0;
    for (i64 e = 0; e < kExperts; ++e) {
      const i64 rows = load[static_cast<std::size_t>(e)];
      if (rows == 0) continue;
      const TensorArg x = t.x.slice(0, row, rows).arg(), y = t.y.slice(0, row, rows).arg();
      const TensorArg weight = t.weight.slice(0, e, 1).view({in, out}).arg();
      if (product == kForward) {
        b.launch(multiply, {x, weight, {}, {}, y});
      } else if (product == kInputGradient) {
        b.launch(multiply, {y, weight, {}, {}, x, false, true});
      } else {
        const TensorArg sums = t.weight_grad.slice(0, e, 1).view({in, out}).arg();
        b.launch(multiply, {x, y, {}, {}, sums, true, false, true});
      }
      row += rows;
    }
    b.device().synchronize(b.device().stream());
  };
  run();
  for (auto _ : state) run();
}

void add_all() {
  constexpr std::pair<Product, const char*> kProducts[] = {{kForward, "forward"},
                                                           {kInputGradient, "input_gradient"},
                                                           {kWeightGradient, "weight_gradient"}};
  struct Layer {
    const char* name;
    i64 in, out;
  };
  struct Kind {
    const char* name;
    Load load;
    bool changing;
  };
  for (const Layer& layer : {Layer{"up", 384, 3072}, Layer{"down", 1536, 384}}) {
    for (const auto& [product, name] : kProducts) {
      for (const Kind& kind : {Kind{"balanced", kBalanced, false},
                               Kind{"hot", kHot, false},
                               Kind{"changing", kBalanced, true}}) {
        const std::string text = fmt::format("{}/{}/{}", layer.name, name, kind.name);
        const auto add = [&](const std::string& how, auto function) {
          benchmark::RegisterBenchmark(
              (how + "/" + text).c_str(),
              [=, p = product](benchmark::State& state) {
                function(state, p, layer.in, layer.out, kind.load, kind.changing);
              })
              ->UseRealTime();
        };
        add("grouped", grouped);
        add("loop", looped);
      }
    }
  }
}

const bool kAdded = (add_all(), true);

}  // namespace
}  // namespace tessera
