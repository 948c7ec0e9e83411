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

// What the check says of one forward and backward pass on one of `tensor` ranks.
std::vector<std::string> problems(i64 tensor, bool sequence_parallel, const Mistake& mistake = {}) {
  constexpr i64 kRows = 8, kFeatures = 16;
  PlacementCheck check;
  const auto device = std::make_shared<MetaDevice>(
      test_device("reference"),
      [&](const Kernel& kernel, const void* args) { check.launched(kernel, args); });
  SimulatedCommunicator::Events events;
  events.started = [&](u64, const GroupSpec& group, const Collective& collective) {
    check.started(group, collective);
  };
  SimulatedCommunicator communicator(std::move(events));
  Mesh mesh(RankGenerator({.world = 2 * tensor, .tensor = tensor}), 1);
  build_mesh(mesh, communicator, *device);
  ModelParts parts(mesh);
  const TensorRegion region(mesh, sequence_parallel, "layer");
  const auto vector = [&](std::string_view name, bool per_row) -> Parameter& {
    return parts.declare({.name = name,
                          .shape = {kFeatures},
                          .placement = per_row ? region.per_row() : Placement::replicated()},
                         "",
                         0);
  };
  Parameter& weight = vector("norm.weight", !mistake.norm_not_per_row);
  Parameter& shift = vector("norm.bias", !mistake.norm_not_per_row);
  const Shape square{kFeatures, kFeatures};
  Parameter& up =
      parts.declare({.name = "up", .shape = square, .split = {{0, Axis::tensor}}}, "", 0);
  Parameter& down =
      parts.declare({.name = "down", .shape = square, .split = {{1, Axis::tensor}}}, "", 0);
  Parameter& bias = vector("bias", !mistake.bias_not_per_row);
  Context cx;
  const CoreOps ops(*device);
  cx.device = device.get();
  cx.ops = &ops;
  cx.stream = &device->stream();
  cx.pool = &device->pool();
  for (Parameter* p : parts.parameter_list()) {
    p->main = p->compute = cx.empty(p->local, DType::fp32);
    p->grad = cx.empty(p->local, DType::fp32);
  }
  check.begin(mesh, parts.parameter_list());

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
    mesh.group(Axis::tensor).reduce_scatter(*cx.stream, whole, gradient, "next").wait(*cx.stream);
  }
  std::vector<Tape::Gradient> gradients(1);
  gradients[0].tensor = gradient;
  tape.backward(cx, frame, Half::both, gradients);
  std::vector<std::string> texts;
  for (const PlacementCheck::Problem& problem : check.problems()) texts.push_back(problem.text);
  return texts;
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

}  // namespace placement_check_test
}  // namespace tessera
