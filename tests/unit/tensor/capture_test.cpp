#include "sdk/src/shared/arena.hpp"
#include "tensor_support.hpp"

namespace tessera {
namespace capture_test {

using namespace testing_support;

class Captures : public ::testing::TestWithParam<u64> {
 protected:
  Captures() {
    for (const Tensor& tensor : {x_, y_, z_}) fill(compute_, tensor, 0);
    add(compute_, x_, y_, z_);
    detour(compute_, device_.pool(), x_, y_);
  }
  ~Captures() override { device_.abort_capture(); }

  void check_usable() {
    device_.abort_capture();
    EXPECT_FALSE(device_.capturing());
    device_.begin_capture(compute_);
    fill(compute_, x_, 77);
    const std::unique_ptr<Graph> graph = device_.end_capture(compute_);
    device_.replay(*graph, compute_);
    EXPECT_EQ(values(device_, x_), std::vector<float>(8, 77));
  }

  TestDevice device_{deferred(GetParam())};
  Stream& compute_ = device_.stream();
  Stream& comm_ = device_.comm_stream(CommLane::critical);
  Arena arena_{device_.pool(), 1 << 16, compute_};
  Tensor x_ = empty(device_, {8}), y_ = empty(device_, {8}), z_ = empty(device_, {8});
};

INSTANTIATE_TEST_SUITE_P(Modes, Captures, ::testing::Values(0, 1, 2, 3, 4, 5), [](const auto& i) {
  return i.param == 0 ? std::string("inlined") : "deferred" + std::to_string(i.param);
});

TEST_P(Captures, RecordAndReplayOnTheSameAddresses) {
  const float before = values(device_, x_)[0];
  device_.begin_capture(compute_);
  EXPECT_TRUE(device_.capturing());
  int host_code = 0, host_task = 0;
  {
    const Tensor temporary = empty(device_, arena_, {8});
    fill(compute_, temporary, 1);
    add(compute_, x_, temporary, x_);
  }
  ++host_code;
  device_.launch_host(compute_, "count", [&] { ++host_task; });
  const std::unique_ptr<Graph> graph = device_.end_capture(compute_);
  EXPECT_FALSE(device_.capturing());
  EXPECT_EQ(graph->launches(), 3);
  EXPECT_EQ(values(device_, x_)[0], before) << "a capture runs nothing";
  for (int step = 1; step <= 3; ++step) {
    device_.replay(*graph, compute_);
    EXPECT_EQ(values(device_, x_), std::vector<float>(8, before + static_cast<float>(step)));
    EXPECT_EQ(host_task, step);
  }
  fill(compute_, x_, 10);
  device_.replay(*graph, compute_);
  EXPECT_EQ(values(device_, x_)[0], 11);
  EXPECT_EQ(host_code, 1);
}

TEST_P(Captures, TakeWorkspaceFromTheGivenPool) {
  device_.begin_capture(compute_);
  const Tensor inner = empty(device_, arena_, {8});
  detour(compute_, arena_, x_, inner);
  detour(compute_, arena_, inner, y_);
  const auto graph = device_.end_capture(compute_);
  fill(compute_, x_, 3);
  device_.replay(*graph, compute_);
  EXPECT_EQ(values(device_, y_), std::vector<float>(8, 3));
  EXPECT_EQ(arena_.layout().used_to(), 128) << "two tensors of 32 bytes at a time";
}

TEST_P(Captures, SpreadAlongEvents) {
  device_.begin_capture(compute_);
  fill(compute_, x_, 4);
  device_.wait(comm_, device_.record(compute_));
  device_.launch_host(comm_, "copy", [from = x_.arg(), to = y_.arg()] {
    for (int i = 0; i < 8; ++i) to.as<float>()[i] = from.as<float>()[i];
  });
  const Event done = device_.record(comm_);
  fill(compute_, z_, 1);
  device_.wait(compute_, done);
  add(compute_, y_, z_, z_);
  const auto graph = device_.end_capture(compute_);
  EXPECT_EQ(graph->launches(), 4);
  for (int i = 0; i < 20; ++i) {
    fill(compute_, y_, 0);
    device_.replay(*graph, compute_);
    ASSERT_EQ(values(device_, z_), std::vector<float>(8, 5));
  }
}

TEST_P(Captures, BeginOnAnyStream) {
  device_.begin_capture(comm_);
  fill(comm_, x_, 6);
  const auto graph = device_.end_capture(comm_);
  device_.replay(*graph, compute_);
  EXPECT_EQ(values(device_, x_)[0], 6) << "replayed on compute, so no event is needed";
}

TEST_P(Captures, RefuseHostAccess) {
  const char* const hint =
      " while capturing on stream \"compute\": a graph holds launches, copies, host tasks and "
      "events "
      "only; do it before the capture or after its end";
  std::vector<float> host(8);
  device_.begin_capture(compute_);
  EXPECT_ERROR(device_.read(x_, host.data()),
               std::string("host read of a tensor (fp32 [8])") + hint);
  EXPECT_ERROR(device_.write(x_, host.data()),
               std::string("host write of a tensor (fp32 [8])") + hint);
  EXPECT_ERROR(device_.synchronize(comm_), std::string("synchronize(\"critical\")") + hint);
  EXPECT_ERROR(device_.begin_capture(comm_), std::string("begin_capture(\"critical\")") + hint);
  check_usable();
}

TEST_P(Captures, RefuseReplay) {
  device_.begin_capture(compute_);
  const auto graph = device_.end_capture(compute_);
  device_.begin_capture(compute_);
  EXPECT_ERROR(device_.replay(*graph, comm_),
               "replay of a graph while capturing on stream \"compute\": a graph holds launches, "
               "copies, host tasks and events only; do it before the capture or after its end");
  check_usable();
}

TEST_P(Captures, RefuseAnUnjoinedFork) {
  device_.begin_capture(compute_);
  device_.wait(comm_, device_.record(compute_));
  fill(comm_, x_, 1);
  device_.wait(compute_, device_.record(comm_));
  fill(comm_, y_, 1);
  EXPECT_ERROR(
      device_.end_capture(compute_),
      "the capture on stream \"compute\" ends while stream \"critical\", forked from it, is not "
      "joined: record an event at its end and let \"compute\" wait for it");
  EXPECT_FALSE(device_.capturing());
  check_usable();
}

TEST_P(Captures, RefuseAForkWithoutWorkThatIsNotJoined) {
  device_.begin_capture(compute_);
  device_.wait(comm_, device_.record(compute_));
  EXPECT_THROW(device_.end_capture(compute_), Error);
  check_usable();
}

TEST_P(Captures, RefuseAnEventFromOutside) {
  const Event outside = device_.record(comm_);
  device_.begin_capture(compute_);
  EXPECT_ERROR(device_.wait(compute_, outside),
               "stream \"compute\" waits for an event recorded outside the capture on stream "
               "\"compute\": what a graph waits for is recorded in it; wait before begin_capture");
  device_.abort_capture();
  device_.begin_capture(compute_);
  EXPECT_THROW(device_.wait(compute_, device_.record(comm_)), Error);
  check_usable();
}

TEST_P(Captures, KeepTheirEventsInside) {
  device_.begin_capture(compute_);
  const Event inside = device_.record(compute_);
  device_.end_capture(compute_);
  EXPECT_ERROR(
      device_.wait(comm_, inside),
      "stream \"critical\" waits for an event that was recorded in a capture: it names a point "
      "inside a graph; record an event after replay");
  device_.begin_capture(compute_);
  EXPECT_THROW(device_.wait(compute_, inside), Error);
  check_usable();
}

TEST_P(Captures, RefuseTheDevicesPool) {
  device_.begin_capture(compute_);
  EXPECT_ERROR(
      empty(device_, {100}),
      "allocation of 400 bytes (activations) from the pool of device \"test\", not the "
      "graph's own, while capturing on stream \"compute\": a graph holds launches, copies, "
      "host tasks and events only; do it before the capture or after its end");
  device_.abort_capture();
  device_.begin_capture(compute_);
  EXPECT_ERROR(
      detour(compute_, device_.pool(), x_, y_),
      "operation \"test.detour\" takes 32 bytes of workspace from the pool of device "
      "\"test\", not the graph's own, while capturing on stream \"compute\": launch it with "
      "the pool that the graph keeps");
  check_usable();
}

TEST_P(Captures, RefuseAFirstUseAtAShape) {
  const Tensor large = empty(device_, {2, 3});
  device_.begin_capture(compute_);
  EXPECT_ERROR(add(compute_, large, Tensor(), large),
               "operation \"test.add\" is used for the first time at these shapes (fp32 [2, 3], "
               "absent, fp32 [2, 3]) while capturing on stream \"compute\": run one warm-up before "
               "the capture, in which libraries set themselves up");
  device_.abort_capture();
  add(compute_, large, Tensor(), large);
  device_.begin_capture(compute_);
  add(compute_, large, Tensor(), large);
  EXPECT_EQ(device_.end_capture(compute_)->launches(), 1);
}

TEST_P(Captures, TellStridesApart) {
  const Tensor wide = empty(device_, {8, 2});
  const Tensor column = wide.slice(1, 0, 1).slice(0, 0, 8);
  device_.begin_capture(compute_);
  EXPECT_THROW(fill(compute_, column, 1), Error);
}

TEST_P(Captures, RefuseAStreamOutside) {
  device_.begin_capture(compute_);
  EXPECT_ERROR(
      fill(comm_, x_, 1),
      "operation \"test.fill\" on stream \"critical\" while capturing on stream \"compute\", "
      "which has not forked to it: let \"critical\" wait for an event recorded in the capture "
      "first");
  device_.abort_capture();
  device_.begin_capture(compute_);
  EXPECT_ERROR(
      device_.launch_host(comm_, "post all_reduce", [] {}),
      "host task \"post all_reduce\" on stream \"critical\" while capturing on stream "
      "\"compute\", which has not forked to it: let \"critical\" wait for an event recorded in "
      "the capture first");
  check_usable();
}

TEST_P(Captures, EndWithAnErrorAfterAnError) {
  device_.begin_capture(compute_);
  EXPECT_THROW(fill(comm_, x_, 1), Error);
  EXPECT_ERROR(
      device_.end_capture(compute_),
      "the capture on stream \"compute\" failed before its end: operation \"test.fill\" on "
      "stream \"critical\" while capturing on stream \"compute\", which has not forked to it: "
      "let \"critical\" wait for an event recorded in the capture first");
  check_usable();
}

TEST_P(Captures, EndWhereTheyBegan) {
  EXPECT_ERROR(device_.end_capture(compute_), "end_capture(\"compute\") without begin_capture");
  device_.begin_capture(compute_);
  EXPECT_ERROR(device_.end_capture(comm_),
               "end_capture(\"critical\") of a capture that began on stream \"compute\"");
  check_usable();
}

TEST_P(Captures, BelongToTheirDevice) {
  device_.begin_capture(compute_);
  const auto graph = device_.end_capture(compute_);
  TestDevice other;
  EXPECT_ERROR(other.replay(*graph, other.stream()),
               "device \"test\" cannot replay a graph that it did not capture");
}

TEST(LibraryCaptures, RefuseAFirstUse) {
  bool first = false;
  const auto prepare = [&first](const TestFillArgs&) {
    return tessera::LaunchRequirements{0, first};
  };
  HostDevice device(
      "test", {}, {make_kernel<TestFillArgs>(prepare, [](const TestFillArgs&, void*, Stream&) {})});
  const Tensor x = empty(device, {2});
  fill(device.stream(), x, 1);
  first = true;
  device.begin_capture(device.stream());
  EXPECT_THROW(fill(device.stream(), x, 1), Error);
}

}  // namespace capture_test
}  // namespace tessera
