#include "kernel/train/gradients/gradient_sync.hpp"

#include <gmock/gmock.h>

#include "kernel/comm/build_mesh.hpp"
#include "kernel/train/gradients/bucket_use.hpp"
#include "tessera/device/host_device.hpp"

namespace tessera {
namespace gradient_sync_test {

using ::testing::ElementsAre;

class Gradients : public ::testing::Test {
 protected:
  Gradients() { build_mesh(mesh_); }
  void declare(std::string_view name, i64 elements, int layer, std::string_view share = {}) {
    parts_.declare(
        {.name = name, .shape = {elements}, .share = share, .placement = Placement::replicated()},
        "",
        layer);
  }
  GradientSync made(i64 bucket_elements) {
    memory_ = ParameterMemory(parts_.parameter_list(), {bucket_elements});
    memory_.allocate_values(device_, DType::fp32, DType::bf16);
    return {memory_, mesh_, device_};
  }
  BucketUse use() const { return bucket_use_of(memory_, parts_.parameters()); }
  // Elements from the start of the buffer, which is where the last parameter lies.
  i64 offset(std::string_view name, const GradientSync& buffer) {
    const auto* start = static_cast<char*>(buffer.buckets().front().flat.arg().address);
    for (Parameter* p : parts_.parameter_list()) {
      if (p->name == name) return (static_cast<char*>(p->grad.arg().address) - start) / 4;
    }
    ADD_FAILURE() << name;
    return -1;
  }
  std::vector<i64> sizes(const GradientSync& buffer) {
    std::vector<i64> all;
    for (const auto& bucket : buffer.buckets()) all.push_back(bucket.flat.elements());
    return all;
  }

  HostDevice device_{"test", {}, {}};
  Mesh mesh_{RankGenerator(Layout{}), 0};
  ModelParts parts_{mesh_, {{"tied", {1, 0}}}};
  ParameterMemory memory_;
};

TEST_F(Gradients, LieInReverseOrderAligned) {
  declare("a", 100, 0);
  declare("b", 64, 1);
  declare("c", 1, 2);
  const GradientSync buffer = made(1 << 20);
  EXPECT_EQ(offset("c", buffer), 0);
  EXPECT_EQ(offset("b", buffer), 64);
  EXPECT_EQ(offset("a", buffer), 128);
  EXPECT_THAT(sizes(buffer), ElementsAre(256)) << "100 rounded up to 128";
  EXPECT_THAT(use().layers, ElementsAre(ElementsAre(2, 1, 0)));
}

TEST_F(Gradients, ABucketClosesWhenItHoldsEnough) {
  declare("a", 64, 0);
  declare("b", 64, 1);
  declare("c", 640, 1);
  declare("d", 64, 2);
  declare("e", 64, 3);
  const GradientSync buffer = made(128);
  EXPECT_THAT(sizes(buffer), ElementsAre(128, 640, 128));
  EXPECT_THAT(use().layers, ElementsAre(ElementsAre(3, 2), ElementsAre(1), ElementsAre(1, 0)));
  i64 end = 0;
  for (const auto& bucket : buffer.buckets()) {
    const auto* start = static_cast<char*>(buffer.buckets().front().flat.arg().address);
    EXPECT_EQ((static_cast<char*>(bucket.flat.arg().address) - start) / 4, end) << "no gaps";
    end += bucket.flat.elements();
  }
}

TEST_F(Gradients, ASharedParameterBelongsToAllItsLayers) {
  declare("table", 64, 0, "table");
  declare("b", 64, 1);
  declare("again", 64, 2, "table");
  const GradientSync buffer = made(64);
  EXPECT_THAT(use().layers, ElementsAre(ElementsAre(1), ElementsAre(0, 2)));
}

// What is summed in another way has a bucket of its own, whatever the sizes of the axes.
TEST_F(Gradients, BucketsHoldWhatIsSummedAlike) {
  const auto partial = [&](std::string_view name, int layer) {
    parts_.declare(
        {.name = name, .shape = {64}, .placement = Placement::summed_over({Axis::tensor})},
        "",
        layer);
  };
  declare("tied", 64, 0, "tied");
  partial("norm1", 1);
  declare("b", 64, 1);
  parts_.declare({.name = "experts", .shape = {64}, .split = {{0, Axis::expert}}}, "", 1);
  declare("c", 64, 1);
  partial("norm2", 2);
  const GradientSync sync = made(1 << 20);
  EXPECT_THAT(use().layers,
              ElementsAre(ElementsAre(2, 1), ElementsAre(1), ElementsAre(1), ElementsAre(0)));
  EXPECT_THAT(use().groups, ElementsAre("dp-cp", "dp-cp", "edp", "dp-cp"));
  EXPECT_EQ(offset("norm2", sync), 0);
  EXPECT_EQ(offset("norm1", sync), 64) << "side by side";
  EXPECT_THAT(sync.buckets()[0].partial, ElementsAre(&mesh_.group(Axis::tensor)));
  EXPECT_EQ(sync.buckets()[0].replicas, &mesh_.data_context());
  EXPECT_THAT(sync.buckets()[1].partial, ElementsAre());
  EXPECT_EQ(offset("c", sync), 128);
  EXPECT_EQ(offset("b", sync), 192);
  EXPECT_EQ(sync.buckets()[2].replicas, &mesh_.group(Axis::expert_data));
  EXPECT_EQ(sync.buckets()[3].flat.elements(), 64) << "a shared parameter alone";
}

// A kernel that gets flat tensors finds a parameter at one place in all of them.
TEST_F(Gradients, LieWhereTheValuesLie) {
  declare("a", 100, 0);
  declare("b", 65, 1);
  declare("c", 1, 2);
  const GradientSync sync = made(64);
  EXPECT_EQ(memory_.elements(), 64 + 128 + 128);
  const auto place = [](const Tensor& of, const Tensor& flat) {
    return (static_cast<char*>(of.arg().address) - static_cast<char*>(flat.arg().address)) /
           dtype_size(of.dtype());
  };
  for (const Parameter* p : parts_.parameter_list()) {
    const i64 offset_of_main = place(p->main, memory_.main());
    EXPECT_EQ(offset_of_main, p->name == "c" ? 0 : p->name == "b" ? 64 : 192);
    EXPECT_EQ(place(p->grad, memory_.gradients()), offset_of_main);
    EXPECT_EQ(place(p->compute, memory_.compute()), offset_of_main);
  }
}

TEST_F(Gradients, ComputeSharesMainsMemoryWhenTheDtypesAgree) {
  declare("a", 100, 0);
  ParameterMemory memory(parts_.parameter_list(), {64});
  memory.allocate_values(device_, DType::fp32, DType::fp32);
  EXPECT_FALSE(memory.compute().defined());
  const Parameter& a = *parts_.parameter_list()[0];
  EXPECT_EQ(a.compute.arg().address, a.main.arg().address);
}

TEST_F(Gradients, HaveTheirParametersShape) {
  parts_.declare({.name = "w", .shape = {6, 7}, .placement = Placement::replicated()}, "", 0);
  const GradientSync buffer = made(64);
  EXPECT_EQ(parts_.parameter_list()[0]->grad.shape(), Shape({6, 7}));
  EXPECT_TRUE(parts_.parameter_list()[0]->grad.dense());
}

}  // namespace gradient_sync_test
}  // namespace tessera
