// What a recorded step takes on the host besides the step (observers.trace): two marks an action,
// and at both ends of the step marks that the host waits for. An action here does nothing.
#include "kernel/train/execution/recorder.hpp"
#include "tests/bench/ops/bench.hpp"

namespace tessera {
namespace {

void steps(benchmark::State& state, bool recorded) {
  const Mesh mesh(RankGenerator({.world = 1}), 0);
  ActionObserver next;
  Recorder recorder(Bench::get().device(), mesh, next);
  const Plan plan;
  const PlanAction action;
  i64 step = 0;
  for (auto _ : state) {
    if (recorded) recorder.begin(++step);
    for (i64 i = 0; i < state.range(0); ++i) {
      recorder.before(plan, action);
      recorder.ready(plan, action);
      recorder.after(plan, action);
    }
    if (recorded) benchmark::DoNotOptimize(recorder.end());
  }
}

void step_that_is_recorded(benchmark::State& state) { steps(state, true); }
void step_that_is_not(benchmark::State& state) { steps(state, false); }
BENCHMARK(step_that_is_recorded)->Arg(1)->Arg(100)->Arg(1000)->Unit(benchmark::kMicrosecond);
BENCHMARK(step_that_is_not)->Arg(100)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace tessera
