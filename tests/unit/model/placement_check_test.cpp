// A norm, a column linear, a row linear with its bias, and their backward pass over absent
// hardware; then with one mistake each.
#include "kernel/model/placement_check.hpp"

#include <gmock/gmock.h>

#include "kernel/comm/build_mesh.hpp"
#include "kernel/dry/meta_device.hpp"
#include "kernel/dry/simulated.hpp"
#include "kernel/model/model_parts.hpp"
#include "tessera/ops.hpp"
#include "tessera/tape.hpp"
#include "tests/unit/ops/devices_support.hpp"

namespace tessera {
namespace placement_check_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Mistake {
  bool norm_not_per_row = false, not_entered = false, bias_not_per_row = false;
};

constexpr i64 kRows = 8, kFeatures = 16;

// One of `tensor` ranks over absent hardware, and what the check says of its launches.
class CheckedRank {
 public:
  explicit CheckedRank(i64 tensor)
      : device_(std::make_shared<MetaDevice>(
            test_device("reference"),
            [&](const Kernel& kernel, const void* args) { check_.launched(kernel, args); })),
        communicator_(events()),
        mesh_(RankGenerator({.world = 2 * tensor, .tensor = tensor}), 1),
        parts_(mesh_),
        ops_(*device_) {
    build_mesh(mesh_, communicator_, *device_);
    cx.device = device_.get();
    cx.ops = &ops_;
    cx.stream = &device_->stream();
    cx.pool = &device_->pool();
  }
  const Mesh& mesh() const { return mesh_; }
  Parameter& declare(ParameterSpec spec) { return parts_.declare(std::move(spec), "", 0); }
  // After the last parameter.
  void begin() {
    for (Parameter* p : parts_.parameter_list()) {
      p->main = p->compute = cx.empty(p->local, DType::fp32);
      p->grad = cx.empty(p->local, DType::fp32);
    }
    check_.begin(mesh_, parts_.parameter_list());
  }
  std::vector<std::string> problems() const {
    std::vector<std::string> texts;
    for (const PlacementCheck::Problem& problem : check_.problems()) texts.push_back(problem.text);
    return texts;
  }

  Context cx;

 private:
  SimulatedCommunicator::Events events() {
    SimulatedCommunicator::Events events;
    events.started = [&](u64, const GroupSpec& group, const Collective& collective) {
      check_.started(group, collective);
    };
    return events;
  }
  PlacementCheck check_;
  std::shared_ptr<MetaDevice> device_;
  SimulatedCommunicator communicator_;
  Mesh mesh_;
  ModelParts parts_;
  CoreOps ops_;
};

// What the check says of one forward and backward pass on one of `tensor` ranks.
std::vector<std::string> problems(i64 tensor, bool sequence_parallel, const Mistake& mistake = {}) {
  CheckedRank rank(tensor);
  const TensorRegion region(rank.mesh(), sequence_parallel, "layer");
  const auto vector = [&](std::string_view name, bool per_row) -> Parameter& {
    return rank.declare({.name = name,
                         .shape = {kFeatures},
                         .placement = per_row ? region.per_row() : Placement::replicated()});
  };
  Parameter& weight = vector("norm.weight", !mistake.norm_not_per_row);
  Parameter& shift = vector("norm.bias", !mistake.norm_not_per_row);
  const Shape square{kFeatures, kFeatures};
  Parameter& up = rank.declare({.name = "up", .shape = square, .split = {{0, Axis::tensor}}});
  Parameter& down = rank.declare({.name = "down", .shape = square, .split = {{1, Axis::tensor}}});
  Parameter& bias = vector("bias", !mistake.bias_not_per_row);
  rank.begin();
  Context& cx = rank.cx;

  Tape tape;
  cx.tape = &tape;
  const i64 own = sequence_parallel ? kRows / tensor : kRows;
  Tensor x = cx.empty({own, kFeatures}, DType::fp32).with_var(kNeedsGradient);
  const Tape::FrameId frame = tape.begin({&x, 1});
  const Tensor normed = ops::layernorm(cx, x, weight, shift, 1e-5);
  const Tensor inner = mistake.not_entered ? ops::linear(cx, normed, up, nullptr)
                                           : region.column(cx, normed, up, nullptr);
  Tensor y;
  if (mistake.bias_not_per_row) {
    y = ops::add_bias(cx, region.leave(cx, ops::linear(cx, inner, down, nullptr)), bias);
  } else {
    y = region.row(cx, inner, down, &bias);
  }
  tape.end({&y, 1});
  // The gradient that the next layer gives: of its own rows, or summed by its region.
  const Tensor gradient = cx.empty(y.shape(), DType::fp32);
  const Tensor whole = cx.empty({y.dim(0) * tensor, kFeatures}, DType::fp32);
  if (sequence_parallel) {
    ProcessGroup& group = rank.mesh().group(Axis::tensor);
    group.reduce_scatter(*cx.stream, whole, gradient, "next").wait(*cx.stream);
  }
  std::vector<Tape::Gradient> gradients(1);
  gradients[0].tensor = gradient;
  tape.backward(cx, frame, Half::both, gradients);
  return rank.problems();
}

// What it says of a gradient that is copied out of memory in which every element differed, after
// the first `columns` and the last `others` features of its rows were written with equal values.
std::vector<std::string> problems_of_slices(i64 columns, i64 others) {
  CheckedRank rank(2);
  const Parameter& equal = rank.declare(
      {.name = "equal", .shape = {kRows, kFeatures}, .placement = Placement::replicated()});
  const Parameter& cut =
      rank.declare({.name = "cut", .shape = {2 * kRows, kFeatures}, .split = {{0, Axis::tensor}}});
  rank.begin();
  const Tensor memory = rank.cx.empty({kRows, kFeatures}, DType::fp32);
  const auto copied = [&](const Tensor& from, const Tensor& to) {
    ops::run(rank.cx, CopyArgs{from.arg(), to.arg()});
  };
  copied(cut.compute, memory);
  copied(equal.compute.slice(1, 0, columns), memory.slice(1, 0, columns));
  copied(equal.compute.slice(1, 0, others), memory.slice(1, kFeatures - others, others));
  copied(memory, equal.grad);
  return rank.problems();
}

TEST(PlacementChecks, SayNothingOfALayerThatIsRight) {
  EXPECT_THAT(problems(1, false), IsEmpty());
  EXPECT_THAT(problems(2, false), IsEmpty());
  EXPECT_THAT(problems(2, true), IsEmpty());
  EXPECT_THAT(problems(4, true), IsEmpty());
}

TEST(PlacementChecks, FindANormWhoseGradientIsNotSummed) {
  EXPECT_THAT(problems(2, false, {.norm_not_per_row = true}), IsEmpty());
  EXPECT_THAT(problems(2, true, {.norm_not_per_row = true}),
              ElementsAre(AllOf(HasSubstr("parameter \"norm.weight\": its gradient (of "
                                          "\"layernorm_weight\") is not the same"),
                                HasSubstr("region().per_row()")),
                          HasSubstr("parameter \"norm.bias\"")));
}

TEST(PlacementChecks, FindAnInputThatDidNotEnter) {
  EXPECT_THAT(problems(2, false, {.not_entered = true}),
              ElementsAre(HasSubstr("\"norm.weight\""), HasSubstr("\"norm.bias\"")));
}

TEST(PlacementChecks, FindARowBiasWhoseGradientIsNotSummed) {
  EXPECT_THAT(problems(2, false, {.bias_not_per_row = true}), IsEmpty());
  EXPECT_THAT(problems(2, true, {.bias_not_per_row = true}),
              ElementsAre(HasSubstr("parameter \"bias\"")));
}

TEST(PlacementChecks, KnowEachElementOfSlices) {
  EXPECT_THAT(problems_of_slices(10, 6), IsEmpty());
  EXPECT_THAT(problems_of_slices(10, 5), ElementsAre(HasSubstr("parameter \"equal\"")));
  EXPECT_THAT(problems_of_slices(9, 6), ElementsAre(HasSubstr("parameter \"equal\"")));
}

}  // namespace placement_check_test
}  // namespace tessera
