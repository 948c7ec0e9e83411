// An MLP of two linear layers on two ranks, cut in two ways: columns then rows, and rows then
// columns. Both give the same numbers; what they communicate differs.
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <exception>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "tessera/ops.hpp"
#include "tessera/process_group.hpp"
#include "tessera/testing/local_world.hpp"
#include "tessera/testing/workbench.hpp"

namespace {

using namespace tessera;
using testing::LocalRank;
using testing::LocalWorld;

constexpr i64 kRanks = 2, kRows = 64, kHidden = 256, kInner = 4 * kHidden;

// What one way of cutting gave on rank 0.
struct Outcome {
  std::vector<double> output, input_gradient;
  GroupCounters forward, backward;
};

GroupCounters operator-(GroupCounters a, const GroupCounters& b) {
  for (std::size_t i = 0; i < std::size(a.kinds); ++i) {
    a.kinds[i].calls -= b.kinds[i].calls;
    a.kinds[i].bytes -= b.kinds[i].bytes;
  }
  return a;
}

struct Mlp {
  std::shared_ptr<Module> up, down;
};

// The parts stay apart between the two layers: nothing to communicate there.
Mlp column_then_row(LocalRank& rank) {
  return {
      rank.build<Module>(
          "up", "column_linear", {{"in", kHidden}, {"out", kInner}, {"sections", Value::Array{}}}),
      rank.build<Module>("down", "row_linear", {{"in", kInner}, {"out", kHidden}})};
}

// GELU needs whole sums, so the first layer must reduce; and the parts of the second are joined.
Mlp row_then_column(LocalRank& rank) {
  return {rank.build<Module>(
              "up", "row_linear", {{"in", kHidden}, {"out", kInner}, {"input_is_parallel", false}}),
          rank.build<Module>("down",
                             "column_linear",
                             {{"in", kInner},
                              {"out", kHidden},
                              {"sections", Value::Array{}},
                              {"gather_output", true}})};
}

Outcome run(const LocalWorld& world, Mlp (*build)(LocalRank&)) {
  testing::LocalWorldOptions options;
  options.layout.world = options.layout.tensor = kRanks;
  options.device = "cpu";
  Outcome outcome;
  world.run(options, [&](LocalRank& rank) {
    const Mlp mlp = build(rank);
    const ProcessGroup& group = rank.group(Axis::tensor);
    testing::Workbench bench(rank.device());
    Tape tape;
    Context cx = rank.context();
    cx.tape = &tape;
    std::vector<Tensor> x{bench.random({kRows, kHidden}, DType::fp32, 1).with_var(kNeedsGradient)};
    const Tape::FrameId frame = tape.begin(x);
    const std::vector<Tensor> y{(*mlp.down)(cx, ops::gelu(cx, (*mlp.up)(cx, x[0])))};
    tape.end(y);
    const GroupCounters forward = group.counters();
    auto gradients = Tape::gradients({bench.random({kRows, kHidden}, DType::fp32, 2)});
    tape.backward(cx, frame, Half::both, gradients);
    gradients[0].pending.wait(*cx.stream);
    if (rank.index() == 0) {
      outcome = {testing::read(y[0]),
                 testing::read(gradients[0].tensor),
                 forward,
                 group.counters() - forward};
    }
  });
  return outcome;
}

void print_pass(const char* pass, const GroupCounters& counters) {
  for (int kind = 0; kind < static_cast<int>(std::size(counters.kinds)); ++kind) {
    const GroupCounters::Entry& entry = counters.kinds[kind];
    if (entry.calls == 0) continue;
    fmt::print("  {:<9} {:<11} {:>2} x   {:>7.0f} KiB\n",
               pass,
               collective_name(static_cast<CollectiveKind>(kind)),
               entry.calls,
               static_cast<double>(entry.bytes) / 1024);
  }
}

i64 total_calls(const Outcome& outcome) {
  i64 calls = 0;
  for (const GroupCounters* pass : {&outcome.forward, &outcome.backward}) {
    for (const GroupCounters::Entry& entry : pass->kinds) calls += entry.calls;
  }
  return calls;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

}  // namespace

int main(int count, char** arguments) {
  try {
    const LocalWorld world({count > 1 ? arguments[1] : TESSERA_PLUGINS});
    fmt::print(
        "An MLP {} -> {} -> {} over {} rows on {} ranks; input bytes of the collectives of one "
        "rank.\n\n",
        kHidden,
        kInner,
        kHidden,
        kRows,
        kRanks);
    const Outcome column_row = run(world, &column_then_row);
    const Outcome row_column = run(world, &row_then_column);
    for (const auto& [name, outcome] :
         {std::pair{"column -> row", &column_row}, std::pair{"row -> column", &row_column}}) {
      fmt::print("{}: {} collectives\n", name, total_calls(*outcome));
      print_pass("forward", outcome->forward);
      print_pass("backward", outcome->backward);
      fmt::print("\n");
    }
    fmt::print("largest difference of outputs {:.1e}, of input gradients {:.1e}\n",
               largest_difference(column_row.output, row_column.output),
               largest_difference(column_row.input_gradient, row_column.input_gradient));
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "tensor_parallel: {}\n", error.what());
    return 1;
  }
}
