// What cannot be captured is refused by the name of its layer, phase and slot.
#include <gmock/gmock.h>

#include "block_support.hpp"
#include "kernel/comm/build_mesh.hpp"
#include "kernel/train/execution/model_graphs.hpp"
#include "tessera/device/core_ops.hpp"
#include "tessera/device/host_device.hpp"
#include "tessera/error.hpp"
#include "tessera/ops.hpp"
#include "tessera/testing/workbench.hpp"
#include "tests/common/error_of.hpp"

namespace tessera::testing {
namespace capture_failures_test {

using ::testing::StartsWith;
using ::testing::ThrowsMessage;

// What one phase "moe_preprocess" of layers.1 does wrong, with a tensor of four integers.
using Wrong = std::function<void(Context&, const Tensor&)>;

std::string error_of_capture(const Wrong& wrong) {
  std::string text = "no error";
  block_world().run(block_options("cpu"), [&](LocalRank& rank) {
    const Slot slot = rank.slot("integers");
    std::vector<Phase> phases(2);
    phases[0].scope = "moe_router";
    phases[0].run = [](Context&, Bundle&) {};
    phases[1].scope = "moe_preprocess";
    phases[1].run = [&](Context& cx, Bundle& bundle) { wrong(cx, bundle[slot]); };
    Bundle example = rank.bundle();
    example[slot] = rank.tensor({4}, DType::i64, {1, 2, 3, 4});
    CapturedPhases range{"layers.1 moe_router to moe_preprocess", phases, {}};
    range.layers = {"layers.1", "layers.1"};
    Tape tape;
    Context cx = rank.context();
    cx.tape = &tape;
    GraphSlots slots(cx, range, example, 1);
    Arena scratch(rank.device().pool(), std::max<i64>(slots.scratch_bytes(), 64), *cx.stream);
    text = error_of([&] { slots.capture(scratch); });
    EXPECT_FALSE(rank.device().capturing());
  });
  return text;
}

const std::string kWhere = "layers.1 moe_preprocess, slot 0: ";

TEST(CaptureFailures, HostRead) {
  const std::string error = error_of_capture([](Context& cx, const Tensor& integers) {
    i64 values[4];
    cx.device->read(integers, values);
  });
  EXPECT_THAT(error, StartsWith(kWhere + "host read of a tensor (i64 [4]) while capturing"));
}

TEST(CaptureFailures, HostWait) {
  const std::string error =
      error_of_capture([](Context& cx, const Tensor&) { cx.device->synchronize(*cx.stream); });
  EXPECT_THAT(error, StartsWith(kWhere + "synchronize(\"compute\") while capturing"));
}

TEST(CaptureFailures, Query) {
  const std::string error = error_of_capture(
      [](Context& cx, const Tensor&) { cx.device->query(cx.device->record(*cx.stream)); });
  EXPECT_THAT(error, StartsWith(kWhere + "query of an event while capturing"));
}

TEST(CaptureFailures, UnjoinedFork) {
  const std::string error = error_of_capture([](Context& cx, const Tensor&) {
    Stream& other = cx.device->comm_stream(CommLane::critical);
    cx.device->wait(other, cx.device->record(*cx.stream));
    cx.device->launch_host(other, "fork", [] {});
  });
  EXPECT_THAT(error,
              StartsWith("layers.1 moe_router to moe_preprocess slot 0 forward: the capture on "
                         "stream \"compute\" ends while stream \"critical\", forked from it, is "
                         "not joined"));
}

TEST(CaptureFailures, EventFromOutside) {
  Event outside;
  const std::string error = error_of_capture([&](Context& cx, const Tensor&) {
    if (!cx.device->capturing()) outside = cx.device->record(*cx.stream);
    if (cx.device->capturing()) cx.device->wait(*cx.stream, outside);
  });
  EXPECT_THAT(
      error,
      StartsWith(kWhere + "stream \"compute\" waits for an event recorded outside the capture"));
}

TEST(CaptureFailures, AllocationOutsideThePool) {
  const std::string error = error_of_capture([](Context& cx, const Tensor&) {
    Tensor::allocate(
        *cx.device, cx.device->pool(), *cx.stream, {64}, DType::fp32, Category::activations);
  });
  EXPECT_THAT(error, StartsWith(kWhere + "allocation of 256 bytes (activations) from the pool of"));
}

TEST(CaptureFailures, FirstUseAtAShape) {
  const std::string error = error_of_capture([](Context& cx, const Tensor& integers) {
    if (!cx.device->capturing()) return;
    FillArgs args{integers.slice(0, 0, 3).arg(), 0};
    ops::run(cx, args);
  });
  EXPECT_THAT(
      error,
      StartsWith(kWhere +
                 "operation \"fill\" is used for the first time at these shapes (i64 [3])"));
}

// A phase that calls its shapes fixed.
TEST(CaptureFailures, ShapesThatChange) {
  i64 rows = 8;
  const std::string error = error_of_capture([&](Context& cx, const Tensor&) {
    cx.empty({rows++, 16}, DType::fp32);
  });
  EXPECT_THAT(
      error,
      StartsWith(kWhere + "request 0 of a capture, 576 bytes of activations, is not what its "
                          "warm-up asked for: what is captured must do the same every time"));
}

// A library that cannot record what it sends.
class Unrecorded final : public Communicator {
 public:
  class Group final : public GroupBackend {
   public:
    std::shared_ptr<PendingCollective> do_start(Collective, Stream&) override { return nullptr; }
    bool capturable() const override { return false; }
  };
  std::string_view do_name() const override { return "unrecorded"; }
  std::unique_ptr<GroupBackend> do_create_group(const GroupSpec&, Device&) override {
    return std::make_unique<Group>();
  }
  void do_abort(std::string_view) noexcept override {}
};

TEST(CaptureFailures, OfCommunicatorsThatCannotRecord) {
  HostDevice device("test", {}, {});
  Unrecorded communicator;
  Mesh mesh(RankGenerator({.world = 2, .tensor = 2}), 0);
  build_mesh(mesh, communicator, device);
  EXPECT_THAT([&] { require_capturable(mesh, "partial"); },
              ThrowsMessage<Error>("[graph] type = \"partial\": the communicator of tp[0,1] cannot "
                                   "record collectives in graphs; choose type = \"none\", or "
                                   "another [comm] type"));
  Mesh alone(RankGenerator({.world = 1}), 0);
  build_mesh(alone);
  require_capturable(alone, "partial");
}

// Warm-up and capture write buffers and give them their values back.
TEST(WarmUp, LeavesBuffersAlone) {
  block_world().run(block_options("cpu"), [&](LocalRank& rank) {
    const Tensor counts = rank.tensor({4}, DType::fp32, {1, 2, 3, 4});
    std::vector<Phase> phases(1);
    phases[0].scope = "moe_router";
    phases[0].run = [&](Context& cx, Bundle&) {
      AddArgs add{counts.arg(), counts.arg(), counts.arg()};
      ops::run(cx, add);
    };
    CapturedPhases range{"layers.0", phases, {}};
    range.written = {counts};
    Tape tape;
    Context cx = rank.context();
    cx.tape = &tape;
    Bundle bundle = rank.bundle();
    GraphSlots slots(cx, range, bundle, 1);
    Arena scratch(rank.device().pool(), 64, *cx.stream);
    slots.capture(scratch);
    EXPECT_EQ(read(counts), (std::vector<double>{1, 2, 3, 4}));
    slots.frame(0).forward(cx, bundle);
    EXPECT_EQ(read(counts), (std::vector<double>{2, 4, 6, 8}));
  });
}

}  // namespace capture_failures_test
}  // namespace tessera::testing
