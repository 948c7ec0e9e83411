#include "kernel/train/run/changes_since.hpp"

#include <gmock/gmock.h>

#include "kernel/config/curve_keys.hpp"
#include "tests/unit/plugins/plugins_support.hpp"

namespace tessera {
namespace changes_since_test {

TEST(ChangesSince, WhatFollowsTheLengthIsNoCurveKeyThatSomebodyChanged) {
  const Difference decay{"lr.decay_steps", "6", "9", true, false, "run.steps"};
  EXPECT_TRUE(follows_length(decay));
  Difference written = decay;
  written.derived = false;
  EXPECT_FALSE(follows_length(written));
  // Its source is a curve key, which is told itself.
  const Difference positions{"model.positions", "16", "8", true, false, "batch.sequence_length"};
  EXPECT_FALSE(follows_length(positions));
  // Another component has it, or it shapes no curve.
  EXPECT_FALSE(follows_length({"lr.decay_steps", std::nullopt, "9", true, false, "run.steps"}));
  EXPECT_FALSE(follows_length({"checkpoint.out", "\"a\"", "\"b\"", true, true, "run.out"}));
}

}  // namespace changes_since_test
}  // namespace tessera
