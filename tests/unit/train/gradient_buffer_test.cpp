#include "kernel/train/gradients/gradient_buffer.hpp"

#include <gmock/gmock.h>

#include "tessera/host_device.hpp"

namespace tessera {
namespace {

using ::testing::ElementsAre;

class Gradients : public ::testing::Test {
 protected:
  void declare(std::string_view name, i64 elements, int layer, std::string_view share = {}) {
    parts_.declare(
        {.name = name, .shape = {elements}, .share = share, .placement = Placement::replicated()},
        "",
        layer);
  }
  GradientBuffer made(i64 bucket_elements) {
    return {parts_.parameters(), DType::f32, bucket_elements, device_};
  }
  // Elements from the start of the buffer, which is where the last parameter lies.
  i64 offset(std::string_view name, const GradientBuffer& buffer) {
    const auto* start = static_cast<char*>(buffer.buckets().front().flat.arg().address);
    for (Parameter* p : parts_.parameter_list()) {
      if (p->name == name) return (static_cast<char*>(p->grad.arg().address) - start) / 4;
    }
    ADD_FAILURE() << name;
    return -1;
  }
  std::vector<i64> sizes(const GradientBuffer& buffer) {
    std::vector<i64> all;
    for (const auto& bucket : buffer.buckets()) all.push_back(bucket.flat.elements());
    return all;
  }

  HostDevice device_{"test", {}, {}};
  Mesh mesh_{RankGenerator(Layout{}), 0};
  ModelParts parts_{mesh_};
};

TEST_F(Gradients, LieInReverseOrderAligned) {
  declare("a", 100, 0);
  declare("b", 64, 1);
  declare("c", 1, 2);
  const GradientBuffer buffer = made(1 << 20);
  EXPECT_EQ(offset("c", buffer), 0);
  EXPECT_EQ(offset("b", buffer), 64);
  EXPECT_EQ(offset("a", buffer), 128);
  EXPECT_THAT(sizes(buffer), ElementsAre(256)) << "100 rounded up to 128";
  EXPECT_THAT(buffer.bucket_layers(), ElementsAre(ElementsAre(2, 1, 0)));
}

TEST_F(Gradients, ABucketClosesWhenItHoldsEnough) {
  declare("a", 64, 0);
  declare("b", 64, 1);
  declare("c", 640, 1);
  declare("d", 64, 2);
  declare("e", 64, 3);
  const GradientBuffer buffer = made(128);
  EXPECT_THAT(sizes(buffer), ElementsAre(128, 640, 128));
  EXPECT_THAT(buffer.bucket_layers(),
              ElementsAre(ElementsAre(3, 2), ElementsAre(1), ElementsAre(1, 0)));
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
  const GradientBuffer buffer = made(64);
  EXPECT_THAT(buffer.bucket_layers(), ElementsAre(ElementsAre(1), ElementsAre(0, 2)));
}

TEST_F(Gradients, HaveTheirParametersShape) {
  parts_.declare({.name = "w", .shape = {6, 7}, .placement = Placement::replicated()}, "", 0);
  const GradientBuffer buffer = made(64);
  EXPECT_EQ(parts_.parameter_list()[0]->grad.shape(), Shape({6, 7}));
  EXPECT_TRUE(parts_.parameter_list()[0]->grad.dense());
}

}  // namespace
}  // namespace tessera
