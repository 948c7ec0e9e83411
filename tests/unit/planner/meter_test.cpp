#include "kernel/planner/meter.hpp"

#include <gtest/gtest.h>

#include "tessera/ops/matmul.hpp"

namespace tessera {
namespace meter_test {

float none = 0;

TensorArg floats(i64 rows, i64 columns) {
  TensorArg arg;
  arg.address = &none;
  arg.rank = 2;
  arg.shape[0] = rows;
  arg.shape[1] = columns;
  return arg;
}

// A second for each 2 FLOPs of a product, a second for each byte of a broadcast.
struct Fixture {
  Fixture() {
    hardware.launch_latency = 0;
    hardware.peak = {.fp32 = 2, .efficiency = 1};
    hardware.memory = {1e12, 1};
    hardware.inside = {1, 1, 0};
  }
  void product(i64 seconds) {
    MatmulArgs args;
    args.a = floats(1, seconds);
    args.b = floats(seconds, 1);
    args.out = floats(1, 1);
    meter.launched(make_kernel<MatmulArgs>([](const MatmulArgs&) {}), &args);
  }
  void broadcast(u64 id, i64 seconds, CommLane lane = CommLane::critical) {
    Collective collective;
    collective.kind = CollectiveKind::broadcast;
    collective.input = floats(1, seconds);
    collective.input.dtype = DType::boolean;
    meter.started(id, {.name = "tp[0,1]", .members = {0, 1}, .lane = lane}, collective);
  }
  void action(PlanAction::Kind kind) {
    PlanAction action;
    action.kind = kind;
    meter.before({}, action);
  }
  std::vector<double> seconds() const {
    std::vector<double> all;
    for (const StepMeter::Cost& cost : meter.actions()) all.push_back(cost.seconds);
    return all;
  }

  Hardware hardware;
  StepMeter meter{hardware};
};

TEST(StepMeters, AReplayHasOneLatency) {
  Fixture f;
  f.hardware.launch_latency = 100;
  f.hardware.graph_latency = 7;
  MatmulArgs args;
  args.a = floats(1, 3);
  args.b = floats(3, 1);
  args.out = floats(1, 1);
  const Kernel product = make_kernel<MatmulArgs>([](const MatmulArgs&) {});
  f.meter.begin_step();
  f.action(PlanAction::F);
  f.meter.graph_begins();
  for (int i = 0; i < 2; ++i) f.meter.launched(product, &args, true);
  f.action(PlanAction::B);
  f.meter.launched(product, &args);
  f.meter.end_step();
  EXPECT_EQ(f.seconds(), (std::vector<double>{7 + 2 * 3, 100 + 3}));
}

TEST(StepMeters, CollectivesRunBesideLaunchesUntilWaitedFor) {
  Fixture f;
  f.meter.begin_step();
  f.product(1);
  f.action(PlanAction::F);
  f.product(2);
  f.broadcast(0, 10);
  f.product(3);
  f.meter.waited(0);
  f.product(1);
  f.action(PlanAction::B);
  f.broadcast(1, 2);
  f.product(5);
  f.meter.waited(1);
  f.meter.end_step();
  EXPECT_EQ(f.meter.prologue().seconds, 1);
  EXPECT_EQ(f.seconds(), (std::vector<double>{2 + 10 + 1, 5}));
  EXPECT_EQ(f.meter.actions()[0].collectives, 10);
  EXPECT_EQ(StepMeter::total(f.meter.prologue(), f.meter.actions()).flops, 2 * 12);
}

TEST(StepMeters, CollectivesFollowEachOther) {
  Fixture f;
  f.meter.begin_step();
  f.action(PlanAction::F);
  f.broadcast(0, 3);
  f.broadcast(1, 3);
  f.meter.waited(1);
  f.meter.end_step();
  EXPECT_EQ(f.seconds(), std::vector<double>{6});
}

TEST(StepMeters, LanesDoNotWaitForEachOther) {
  Fixture f;
  f.meter.begin_step();
  f.action(PlanAction::F);
  f.broadcast(0, 10, CommLane::bulk);
  f.broadcast(1, 3, CommLane::critical);
  f.meter.waited(1);
  f.product(1);
  f.action(PlanAction::B);
  f.broadcast(2, 1, CommLane::bulk);
  f.meter.waited(2);
  f.meter.end_step();
  EXPECT_EQ(f.seconds(), (std::vector<double>{3 + 1, 10 + 1 - 4}));
}

TEST(StepMeters, WhatIsUnderWayGoesOnBesideTheNextAction) {
  Fixture f;
  f.meter.begin_step();
  f.action(PlanAction::F);
  f.broadcast(0, 5);
  f.product(2);
  f.action(PlanAction::F);
  f.product(1);
  f.meter.waited(0);
  f.meter.end_step();
  EXPECT_EQ(f.seconds(), (std::vector<double>{2, 3}));
}

TEST(StepMeters, ReductionsAreActionsOfTheirOwn) {
  Fixture f;
  f.meter.begin_step();
  f.action(PlanAction::Reduce);
  f.broadcast(0, 5);
  f.action(PlanAction::B);
  f.product(2);
  f.action(PlanAction::Step);
  f.meter.waited(0);
  f.product(1);
  f.meter.end_step();
  EXPECT_EQ(f.seconds(), (std::vector<double>{5, 2, 1}));
}

}  // namespace meter_test
}  // namespace tessera
