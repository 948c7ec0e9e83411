// Any pipeline schedule and placement, one loss curve.
#include <gtest/gtest.h>

#include "layouts_support.hpp"

namespace tessera::testing {
namespace pipeline_invariant_test {

class PipelineInvariant : public ::testing::TestWithParam<TableRow> {};

TEST_P(PipelineInvariant, Holds) {
  const Findings found = check_invariant(plugins(), GetParam().sets, deep_model());
  EXPECT_EQ(found.losses, "");
  EXPECT_EQ(found.norms, "");
  EXPECT_EQ(found.gradients, "");
  EXPECT_EQ(found.update, "");
}

INSTANTIATE_TEST_SUITE_P(Layouts,
                         PipelineInvariant,
                         ::testing::ValuesIn(pipeline_layouts()),
                         [](const auto& i) { return i.param.name; });

}  // namespace pipeline_invariant_test
}  // namespace tessera::testing
