// What pipeline ranks know of each other's layers is found once for all ranks of a pipeline group.
#include <gtest/gtest.h>

#include <vector>

#include "invariant_support.hpp"
#include "kernel/dry/dry_rank.hpp"
#include "kernel/train/setup/make_rank.hpp"
#include "kernel/train/setup/placed_model.hpp"
#include "trainer_support.hpp"

namespace tessera::testing {
namespace outlines_test {

std::vector<std::string> slots(const std::vector<Boundary>& boundaries) {
  std::vector<std::string> all;
  for (const Boundary& boundary : boundaries) {
    for (const BoundarySlot& slot : boundary) {
      all.push_back(fmt::format("{} {} {}", slot.name, slot.shape, dtype_name(slot.dtype)));
    }
  }
  return all;
}

TEST(Outlines, AreSharedByAPipelineGroup) {
  const Sets sets = {
      "parallel.pipeline=2", "parallel.context=2", "parallel.tensor=2", "schedule.type=\"1f1b\""};
  const Resolved config = resolve(Config::parse(tiny_config(), "test", sets), plugins());
  const RunSetup setup = derive_setup(config, plugins(), 8);
  const auto device = make_device(rank_spec_of(setup), {});
  Outlines outlines(setup);
  std::vector<std::shared_ptr<const OtherStages>> found;
  for (i64 number = 0; number < 8; ++number) {
    SCOPED_TRACE(fmt::format("rank {}", number));
    const Rank rank = dry_rank(setup.layout, number, device);
    found.push_back(outlines.of(rank));
    const auto own = Outlines(setup).of(rank);
    EXPECT_NE(own, found.back());
    EXPECT_EQ(own->holders, found.back()->holders);
    EXPECT_EQ(own->parameter_elements, found.back()->parameter_elements);
    EXPECT_EQ(slots(own->boundaries), slots(found.back()->boundaries));
    const PlacedModel model(rank, setup, {.outlines = &outlines});
    EXPECT_EQ(slots(model.boundaries()), slots(own->boundaries));
  }
  for (std::size_t rank = 0; rank < 4; ++rank) {  // the second stage has the higher numbers
    EXPECT_EQ(found[rank], found[rank + 4]);
    EXPECT_NE(found[rank], found[(rank + 1) % 4]);
  }
  EXPECT_FALSE(slots(found[0]->boundaries).empty());
}

}  // namespace outlines_test
}  // namespace tessera::testing
