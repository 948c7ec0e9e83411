#include <gmock/gmock.h>

#include <utility>

#include "tessera/device/communicator.hpp"
#include "tessera/device/host_device.hpp"
#include "tessera/error.hpp"
#include "tessera/layer.hpp"
#include "tessera/testing/workbench.hpp"

namespace tessera {
namespace bundle_test {

using ::testing::ElementsAre;
using ::testing::ThrowsMessage;

TEST(Bundles, RefuseSlotsThatAreNotTheirs) {
  Bundle bundle(3, 1);
  const Bundle& constant = bundle;
  EXPECT_FALSE(bundle[Slot{2}].defined());
  EXPECT_TRUE(constant[HostSlot{0}].empty());
  constexpr const char* kDefault =
      "a bundle with 3 slots is asked for slot -1: it is a default one; make it in the layer's "
      "constructor, with BuildContext::slot";
  EXPECT_THAT([&] { bundle[Slot()]; }, ThrowsMessage<Error>(kDefault));
  EXPECT_THAT([&] { constant[Slot()]; }, ThrowsMessage<Error>(kDefault));
  EXPECT_THAT([&] { bundle[Slot{3}]; },
              ThrowsMessage<Error>("a bundle with 3 slots is asked for slot 3: it was made for "
                                   "another model chunk"));
  EXPECT_THROW(constant[HostSlot()], Error);
  EXPECT_THROW(constant[HostSlot{1}], Error);
}

class ReadBack : public ::testing::Test {
 protected:
  Tensor integers(const std::vector<double>& values) {
    return bench_.tensor({static_cast<i64>(values.size())}, DType::i64, values);
  }
  i64 host_blocks() const { return device_.memory().host_blocks; }

  static DeviceArguments deferred() {
    DeviceArguments arguments;
    arguments.deferred_seed = 3;
    return arguments;
  }

  HostDevice device_{"host_test", deferred(), {}};
  testing::Workbench bench_{device_};
  Context& cx_ = bench_.context();
  std::shared_ptr<HostBlocks> blocks_ = std::make_shared<HostBlocks>();
  const HostSlot slot_{0};
};

TEST_F(ReadBack, BringsIntegersToThePhaseThatReadsThem) {
  Bundle bundle(0, 1, blocks_);
  const HostCalls before = device_.host_calls();
  bundle.read_back(cx_, slot_, integers({4, 0, 7}));
  EXPECT_EQ(device_.host_calls().join, before.join) << "starting does not wait";
  std::vector<i64> seen;
  const Phase phase{.scope = "moe_dispatch",
                    .run = [&](Context&, Bundle& b) { seen = std::as_const(b)[slot_]; },
                    .reads = {slot_}};
  run_phase(phase, cx_, bundle);
  EXPECT_THAT(seen, ElementsAre(4, 0, 7));
  EXPECT_EQ(device_.host_calls().join, before.join + 1);
  run_phase(phase, cx_, bundle);
  EXPECT_EQ(device_.host_calls().join, before.join + 1) << "once a microbatch";
}

TEST_F(ReadBack, APhaseThatRunsAgainKeepsWhatTheFirstRunBrought) {
  Bundle bundle(0, 1, blocks_);
  bundle.read_back(cx_, slot_, integers({1, 2}));
  bundle.await(device_, slot_);
  Bundle again = bundle;
  Context recomputing = cx_;
  recomputing.recomputing = true;
  again.read_back(recomputing, slot_, integers({8, 9}));
  again.await(device_, slot_);
  EXPECT_THAT(std::as_const(again)[slot_], ElementsAre(1, 2));
}

TEST_F(ReadBack, LaterBundlesTakeTheSameHostMemory) {
  i64 first = 0;
  for (int microbatch = 0; microbatch < 3; ++microbatch) {
    Bundle bundle(0, 1, blocks_);
    bundle.read_back(cx_, slot_, integers({1, 2}));
    bundle.await(device_, slot_);
    if (microbatch == 0) first = host_blocks();
    EXPECT_EQ(host_blocks(), first);
  }
  EXPECT_GT(first, 0);
}

TEST_F(ReadBack, RefusesWhatWasNotReadBack) {
  Bundle bundle(0, 1, blocks_);
  EXPECT_THAT([&] { bundle.await(device_, slot_); },
              ThrowsMessage<Error>("nothing was read back into host slot 0"));
  EXPECT_THROW(bundle.read_back(cx_, slot_, bench_.tensor({1}, DType::fp32, {1})), Error);
}

// What it would read was not read back, since the phase before it was left out, too.
TEST_F(ReadBack, APhaseOfTrainingOnlyIsLeftOutOfEvaluations) {
  Bundle bundle(0, 1, blocks_);
  int runs = 0;
  const Phase phase{.scope = "moe_dispatch",
                    .run = [&](Context&, Bundle&) { ++runs; },
                    .reads = {slot_},
                    .training_only = true};
  Context evaluating = cx_;
  evaluating.mode = Mode::evaluate;
  run_phase(phase, evaluating, bundle);
  EXPECT_EQ(runs, 0);
  EXPECT_THROW(run_phase(phase, cx_, bundle), Error) << "training would wait for it";
  bundle.read_back(cx_, slot_, integers({1}));
  run_phase(phase, cx_, bundle);
  EXPECT_EQ(runs, 1);
}

class UnderWay : public ReadBack {
 protected:
  class Counted final : public PendingCollective {
   public:
    explicit Counted(int& waits) : waits_(waits) {}
    void do_wait(Stream&) override { ++waits_; }
    void do_join() override {}

   private:
    int& waits_;
  };
  void start(Bundle& bundle) {
    bundle.leave_under_way(
        Work(std::make_shared<Counted>(waits_), *cx_.stream, Work::Memory(), Work::Memory()));
  }
  int waits_ = 0;
};

TEST_F(UnderWay, IsWaitedForByTheNextPhaseOfTheBundle) {
  Bundle bundle(1, 0), other(1, 0);
  const Phase starts{.scope = "moe_dispatch",
                     .run = [&](Context&, Bundle& b) { start(b); },
                     .starts_exchange = true};
  int before = -1;
  const Phase reads{.scope = "moe_experts", .run = [&](Context&, Bundle&) { before = waits_; }};
  run_phase(starts, cx_, bundle);
  run_phase(reads, cx_, other);
  EXPECT_EQ(before, 0) << "another microbatch's phase";
  run_phase(reads, cx_, bundle);
  EXPECT_EQ(before, 1);
  run_phase(reads, cx_, bundle);
  bundle.arrive(*cx_.stream);
  EXPECT_EQ(waits_, 1) << "once";
}

TEST_F(UnderWay, IsWaitedForByCopiesToo) {
  Bundle bundle(1, 0);
  start(bundle);
  Bundle copy = bundle;
  copy.arrive(*cx_.stream);
  EXPECT_EQ(waits_, 1);
  bundle.arrive(*cx_.stream);
  EXPECT_EQ(waits_, 2);
}

}  // namespace bundle_test
}  // namespace tessera
