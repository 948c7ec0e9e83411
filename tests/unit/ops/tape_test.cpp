// Frames of the tape: what crosses their edge, and how long they keep what they hold.
#include <gmock/gmock.h>

#include <array>

#include "sdk/src/shared/component_call.hpp"
#include "tessera/base/work.hpp"
#include "tessera/device/communicator.hpp"
#include "tessera/ops.hpp"
#include "tessera/testing/workbench.hpp"
#include "tests/unit/ops/devices_support.hpp"

namespace tessera::testing {
namespace tape_test {

using Tensors = std::vector<Tensor>;
using Values = std::vector<double>;

class TapeFrames : public ::testing::Test {
 protected:
  TapeFrames() { cx_.tape = &tape_; }

  Tensor vector(const Values& values) {
    return bench_.tensor({static_cast<i64>(values.size())}, DType::fp64, values);
  }
  Tensor wanted(const Values& values) { return vector(values).with_var(kNeedsGradient); }
  // y = x, with closures that hold `held`.
  template <class Held>
  Tensor copied(const Tensor& x, const Held& held) {
    Tensor y = x;
    tape_.record(
        "copied",
        std::array{x},
        std::array{&y},
        [held](Context&, Gradients& g) {
          (void)held;
          g.input(0, g.output(0));
        },
        [held](Context&, Gradients&) { (void)held; });
    return y;
  }

  std::shared_ptr<Device> device_ = test_device("reference", 1);
  Workbench bench_{*device_};
  Context& cx_ = bench_.context();
  Tape tape_;
};

TEST_F(TapeFrames, GradientsCrossTheEdgeByPosition) {
  // A constant, a value, an empty place, a value that passes unchanged.
  Tensors values = {vector({5}), wanted({2}), Tensor(), wanted({3})};
  const Tape::FrameId frame = tape_.begin(values);
  Tensors results = {Tensor(), ops::multiply(cx_, values[1], values[0]), values[0], values[3]};
  tape_.end(results);
  auto gradients = Tape::gradients({Tensor(), vector({7}), vector({100}), vector({11})});
  tape_.backward(cx_, frame, Half::both, gradients);
  ASSERT_EQ(gradients.size(), values.size());
  EXPECT_FALSE(gradients[0].tensor.defined()) << "a constant has none";
  EXPECT_EQ(read(gradients[1].tensor), Values{35});
  EXPECT_FALSE(gradients[2].tensor.defined());
  EXPECT_EQ(read(gradients[3].tensor), Values{11});
}

TEST_F(TapeFrames, ValuesOfOneFrameAreLeavesOfTheNext) {
  Tensors values = {wanted({2})};
  const Tape::FrameId first = tape_.begin(values);
  values[0] = ops::scale(cx_, values[0], 3);
  tape_.end(values);
  const Tensor aside = values[0];
  const Tape::FrameId second = tape_.begin(values);
  EXPECT_THROW(ops::scale(cx_, aside, 5), Error) << "crossed without the list";
  values[0] = ops::scale(cx_, values[0], 5);
  tape_.end(values);
  auto gradients = Tape::gradients({vector({1})});
  tape_.backward(cx_, second, Half::both, gradients);
  tape_.backward(cx_, first, Half::both, gradients);
  EXPECT_EQ(read(gradients[0].tensor), Values{15});
}

// A collective that counts who waits for it.
class Counted final : public PendingCollective {
 public:
  explicit Counted(int& waits) : waits_(waits) {}
  void do_wait(Stream&) override { ++waits_; }
  void do_join() override { ++waits_; }

 private:
  int& waits_;
};

// The gradient of the last operation's result is read at once, that of the first one's only after
// the last has run; that of a value which passes unchanged is another frame's.
TEST_F(TapeFrames, ArrivalWaitsForWhatThePassReadsFirst) {
  Tensors values = {wanted({2}), wanted({3})};
  const Tape::FrameId frame = tape_.begin(values);
  const Tensor early = ops::scale(cx_, values[0], 3);
  const Tensor late = ops::scale(cx_, early, 5);
  tape_.end(Tensors{early, late, values[1]});
  std::array<int, 3> waits{};
  auto gradients = Tape::gradients({vector({1}), vector({1}), vector({1})});
  for (std::size_t i = 0; i < waits.size(); ++i) {
    gradients[i].pending =
        Work(std::make_shared<Counted>(waits[i]), *cx_.stream, Work::Memory(), Work::Memory());
  }
  tape_.arrive(cx_, frame, gradients);
  EXPECT_EQ(waits, (std::array<int, 3>{0, 1, 0}));
  tape_.backward(cx_, frame, Half::both, gradients);
  EXPECT_EQ(waits, (std::array<int, 3>{1, 1, 0})) << "nothing is waited for twice";
  EXPECT_EQ(read(gradients[0].tensor), Values{18});
}

// Without a gradient of its result an operation does not run, and what comes before it is first.
TEST_F(TapeFrames, ArrivalPassesOverWhatDoesNotRun) {
  Tensors values = {wanted({2})};
  const Tape::FrameId frame = tape_.begin(values);
  const Tensor used = ops::scale(cx_, values[0], 3);
  tape_.end(Tensors{used, ops::scale(cx_, values[0], 5)});
  int waits = 0;
  auto gradients = Tape::gradients({vector({1}), Tensor()});
  gradients[0].pending =
      Work(std::make_shared<Counted>(waits), *cx_.stream, Work::Memory(), Work::Memory());
  tape_.arrive(cx_, frame, gradients);
  EXPECT_EQ(waits, 1);
  tape_.backward(cx_, frame, Half::both, gradients);
  EXPECT_EQ(read(gradients[0].tensor), Values{3});
}

TEST_F(TapeFrames, AreReleasedWithTheirLastHalf) {
  const auto run = [&](std::initializer_list<Half> halves) {
    Tensors values = {wanted({2})};
    const Tape::FrameId frame = tape_.begin(values);
    const Tensors results = {ops::scale(cx_, values[0], 3)};
    tape_.end(results);
    auto gradients = Tape::gradients({vector({1})});
    for (const Half half : halves) {
      EXPECT_EQ(tape_.live_frames(), 1);
      tape_.backward(cx_, frame, half, gradients);
    }
    EXPECT_EQ(read(gradients[0].tensor), Values{3});
    EXPECT_EQ(tape_.live_frames(), 0);
    EXPECT_THROW(tape_.backward(cx_, frame, Half::both, gradients), Error);
  };
  run({Half::both});
  run({Half::input, Half::weight});
}

TEST_F(TapeFrames, ClosuresAreReleasedOnceTheyRan) {
  const auto held = std::make_shared<int>();
  Tensors x = {wanted({1})};
  const Tape::FrameId frame = tape_.begin(x);
  const Tensors y = {copied(x[0], held)};
  tape_.end(y);
  EXPECT_EQ(held.use_count(), 3);
  auto gradients = Tape::gradients({vector({1})});
  tape_.backward(cx_, frame, Half::input, gradients);
  EXPECT_EQ(held.use_count(), 2);
  tape_.backward(cx_, frame, Half::weight, gradients);
  EXPECT_EQ(held.use_count(), 1);
}

TEST_F(TapeFrames, ClosuresThatDoNotRunAreReleasedToo) {
  const auto held = std::make_shared<int>();
  const auto record = [&](Tape& tape) {
    Tensor x = wanted({1}), y = x;
    const Tape::FrameId frame = tape.begin({&x, 1});
    tape.record("held", std::array{x}, std::array{&y}, [held](Context&, Gradients&) {});
    tape.end({&y, 1});
    return frame;
  };
  tape_.release(record(tape_));
  EXPECT_EQ(held.use_count(), 1) << "the frame was released";
  const Tape::FrameId frame = record(tape_);
  std::vector<Tape::Gradient> gradients(1);
  tape_.backward(cx_, frame, Half::both, gradients);
  EXPECT_EQ(held.use_count(), 1) << "no gradient reached the operation";
  {
    Tape other;
    record(other);
    EXPECT_EQ(held.use_count(), 2);
  }
  EXPECT_EQ(held.use_count(), 1) << "the tape is gone";
}

TEST_F(TapeFrames, ClosuresMayBeLargeAndMany) {
  for (int repeat = 0; repeat < 3; ++repeat) {
    Tensors x = {wanted({1})};
    const Tape::FrameId frame = tape_.begin(x);
    Tensors y = x;
    for (int i = 0; i < 40; ++i) {
      y[0] = copied(y[0], std::array<char, 1000>());
      if (i % 10 == 0) y[0] = copied(y[0], std::array<char, 50000>());
    }
    tape_.end(y);
    auto gradients = Tape::gradients({vector({4})});
    tape_.backward(cx_, frame, Half::both, gradients);
    EXPECT_EQ(read(gradients[0].tensor), Values{4});
  }
}

// Notes where it was copied to.
struct Noted {
  explicit Noted(std::vector<const void*>& places) : places_(places) {}
  Noted(const Noted& other) : places_(other.places_) { places_.push_back(this); }
  std::vector<const void*>& places_;
};

TEST_F(TapeFrames, TakeOverTheMemoryOfReleasedOnes) {
  std::vector<const void*> places[2];
  for (std::vector<const void*>& now : places) {
    Tensor x = wanted({1}), y = x;
    const auto closure = [noted = Noted(now)](Context&, Gradients&) {};
    now.clear();
    const Tape::FrameId frame = tape_.begin({&x, 1});
    tape_.record("noted", std::array{x}, std::array{&y}, closure, closure);
    tape_.end({&y, 1});
    tape_.release(frame);
    EXPECT_EQ(now.size(), 2U) << "named closures are copied once";
  }
  EXPECT_EQ(places[0], places[1]);
}

// Each half, by the component that recorded its operation.
TEST_F(TapeFrames, ErrorsOfClosuresNameTheComponentThatRecorded) {
  Identity outer, inner;
  for (Identity* const who : {&outer, &inner}) {
    who->kind = "module";
    who->name = who == &outer ? "outer" : "inner";
    who->plugin = "test 1";
    who->library = "test.so";
    who->place = "at x.toml:1:1: [model]";
  }
  const auto broken = [](Context&, Gradients&) { fail("no gradient"); };
  for (const Half half : {Half::input, Half::weight}) {
    for (const bool in_component : {false, true}) {
      Tensors values = {wanted({2})};
      const Tape::FrameId frame = tape_.begin(values);
      Tensor y = values[0];
      const auto record = [&] {
        const BackwardFn none, wrong = broken;
        tape_.record("broken",
                     std::array{values[0]},
                     std::array{&y},
                     half == Half::input ? wrong : none,
                     half == Half::weight ? wrong : none);
      };
      if (in_component) {
        const ComponentCall around(&outer, "mlp");
        call_component(&inner, "forward pass", record);
      } else {
        record();
      }
      values[0] = y;
      tape_.end(values);
      auto gradients = Tape::gradients({vector({1})});
      const std::string text =
          in_component
              ? "no gradient\n  in module/inner (backward pass) of plugin test 1 (test.so), "
                "configured at x.toml:1:1: [model]"
              : "no gradient";
      EXPECT_THAT([&] { tape_.backward(cx_, frame, Half::both, gradients); },
                  ::testing::ThrowsMessage<Error>(text));
      tape_.release(frame);
    }
  }
}

TEST_F(TapeFrames, AGradientShortOfTheResultsIsAnError) {
  Tensors x = {wanted({1})};
  const Tape::FrameId frame = tape_.begin(x);
  tape_.end(x);
  std::vector<Tape::Gradient> none;
  EXPECT_THROW(tape_.backward(cx_, frame, Half::both, none), Error);
}

}  // namespace tape_test
}  // namespace tessera::testing
