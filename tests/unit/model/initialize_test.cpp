#include "kernel/model/initialize.hpp"

#include <gmock/gmock.h>

#include <cmath>

#include "kernel/model/host_values.hpp"
#include "tessera/device/host_device.hpp"
#include "tessera/random.hpp"

namespace tessera {
namespace initialize_test {

using Values = std::vector<double>;

class Initial : public ::testing::Test {
 protected:
  Parameter made(const Shape& logical,
                 const std::vector<Split>& split,
                 Init init,
                 const Mesh& mesh,
                 DType main = DType::fp32,
                 DType compute = DType::fp32) {
    Parameter p;
    p.name = "layers.3.mlp.up.weight";
    p.logical = logical;
    p.layout = ParameterLayout(logical, split, Placement::replicated(), mesh);
    p.local = p.layout.storage();
    p.init = init;
    p.main = allocate(p.local, main);
    p.compute = main == compute ? p.main : allocate(p.local, compute);
    initialize(p, 11, device_);
    return p;
  }
  Tensor allocate(const Shape& shape, DType dtype) {
    return Tensor::allocate(
        device_, device_.pool(), device_.stream(), shape, dtype, Category::parameters);
  }
  static Mesh mesh(i64 tensor, i64 rank) {
    Layout layout;
    layout.world = layout.tensor = tensor;
    return {RankGenerator(layout), rank};
  }

  HostDevice device_{"test", {}, {}};
};

TEST_F(Initial, ValuesDependOnSeedNameAndElementOnly) {
  const Parameter whole = made({6, 5}, {}, Init::gaussian(0.5), mesh(1, 0));
  const Values values = read_values(device_, whole.main);
  const u64 key = random_key(11, "layers.3.mlp.up.weight");
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(values[i], static_cast<float>(0.5 * random_normal(key, i))) << i;
  }
}

TEST_F(Initial, EveryLayoutHoldsTheSameValues) {
  const Values whole = read_values(device_, made({12, 4}, {}, Init::gaussian(1), mesh(1, 0)).main);
  const std::vector<std::vector<Split>> cuts = {{{0, Axis::tensor}},
                                                {{1, Axis::tensor}},
                                                {{0, Axis::tensor, {4, 8}}},
                                                {{0, Axis::tensor, {}, 8}}};
  for (const auto& cut : cuts) {
    for (i64 rank = 0; rank < 2; ++rank) {
      const Mesh at = mesh(2, rank);
      const Parameter p = made({12, 4}, cut, Init::gaussian(1), at);
      Values expected(static_cast<std::size_t>(p.local.elements()), 0);  // padding is zero
      for (const ElementRun& run : p.layout.runs()) {
        std::copy_n(whole.begin() + run.logical, run.length, expected.begin() + run.local);
      }
      EXPECT_EQ(read_values(device_, p.main), expected);
    }
  }
}

TEST_F(Initial, ConstantsLeavePaddingZero) {
  const Parameter p = made({3}, {{0, Axis::tensor, {}, 4}}, Init::ones(), mesh(1, 0));
  EXPECT_EQ(read_values(device_, p.main), Values({1, 1, 1, 0}));
}

TEST_F(Initial, RoundedOnceToTheComputeForm) {
  const Parameter p = made({64}, {}, Init::gaussian(1), mesh(1, 0), DType::fp64, DType::fp32);
  const Values main = read_values(device_, p.main), compute = read_values(device_, p.compute);
  for (std::size_t i = 0; i < main.size(); ++i) EXPECT_EQ(compute[i], static_cast<float>(main[i]));
}

// Larger than what is staged at once.
TEST_F(Initial, ShardsHoldTheirPartOfTheWhole) {
  const Shape shape = {300, 500};
  const Mesh alone = mesh(1, 0);
  const Parameter whole = made(shape, {}, Init::gaussian(1), alone, DType::fp64, DType::fp32);
  const Values main = read_values(device_, whole.main),
               compute = read_values(device_, whole.compute);
  for (const FlatRange range : {FlatRange{0, 70000}, {60000, 90000}, {131071, 3}, {17, 0}}) {
    Parameter p;
    p.name = whole.name;
    p.logical = shape;
    p.layout = ParameterLayout(shape, {}, Placement::replicated(), alone);
    p.local = shape;
    p.init = whole.init;
    p.compute = allocate(shape, DType::fp32);
    const Tensor part = allocate({range.length}, DType::fp64);
    initialize(p, {range, part}, 11, device_);
    EXPECT_EQ(read_values(device_, p.compute), compute);
    EXPECT_EQ(read_values(device_, part),
              Values(main.begin() + range.begin, main.begin() + range.begin + range.length));
  }
}

TEST_F(Initial, NormalValuesHaveTheirDeviation) {
  const Values values =
      read_values(device_, made({100, 100}, {}, Init::gaussian(0.02), mesh(1, 0)).main);
  double sum = 0, squares = 0;
  for (const double value : values) {
    sum += value;
    squares += value * value;
  }
  EXPECT_NEAR(sum / 1e4, 0, 5 * 0.02 / 100);
  EXPECT_NEAR(std::sqrt(squares / 1e4), 0.02, 0.02 * 0.04);
}

}  // namespace initialize_test
}  // namespace tessera
