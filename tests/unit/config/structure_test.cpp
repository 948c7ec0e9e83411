#include "kernel/config/structure.hpp"

#include <gmock/gmock.h>

#include "kernel/config/curve_keys.hpp"
#include "tests/unit/config/config_support.hpp"

namespace tessera {
namespace structure_test {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::Not;
using testing::resolved;
const std::string kBase(testing::kLeast);

Structure structure(const std::vector<std::string>& sets = {}) {
  return structure_of(*resolved(kBase, sets).tree);
}

std::vector<std::string> changed(const Structure& before, const std::vector<std::string>& sets) {
  std::vector<std::string> texts;
  for (const StructureChange& change : structure_changes(before, *resolved(kBase, sets).tree)) {
    texts.push_back(change.text());
  }
  return texts;
}

TEST(Structure, HasDefaultsAndTypesOfSlots) {
  const Structure keys = structure();
  EXPECT_EQ(keys.at("model.type"), "\"gpt\"");
  EXPECT_EQ(keys.at("model.block.norm.type"), "\"layernorm\"");
  EXPECT_EQ(keys.at("model.block.norm.eps"), "1e-05");
  EXPECT_THAT(keys, Not(Contains(Key("model.block.norm.bias"))));
  EXPECT_THAT(keys, Not(Contains(Key("optimizer.rule.type"))));
  EXPECT_THAT(structure({"model.block.mlp.type=moe"}),
              Not(Contains(Key("model.block.mlp.dispatcher.type"))));
}

TEST(Structure, AKeyOfAnotherValueIsAChange) {
  EXPECT_THAT(changed(structure(), {"model.layers=5", "lr.peak=7"}), IsEmpty());
  EXPECT_THAT(changed(structure(), {"model.block.norm.eps=0.1"}),
              ElementsAre("model.block.norm.eps: 1e-05, now 0.1"));
  // Keys of a type that is another one come and go with it.
  EXPECT_THAT(changed(structure(), {"model.block.mlp.type=moe"}),
              ElementsAre("model.block.mlp.type: \"dense\", now \"moe\""));
  // A variant has what it inherits.
  EXPECT_THAT(
      changed(structure({"model.blocks.a={}"}), {"model.blocks.a={}", "model.block.norm.eps=0.1"}),
      ElementsAre("model.block.norm.eps: 1e-05, now 0.1"));
}

// A plugin of another version: its default is written nowhere in the configuration.
TEST(Structure, AnotherDefaultIsAChange) {
  Structure before = structure();
  before["model.block.norm.eps"] = "1e-06";
  EXPECT_THAT(changed(before, {}), ElementsAre("model.block.norm.eps: 1e-06, now 1e-05"));
  before.erase("model.block.norm.eps");  // a version that had no such key
  EXPECT_THAT(changed(before, {}), IsEmpty());
}

std::vector<std::string> shaping(const std::vector<std::string>& sets) {
  std::vector<std::string> keys;
  for (const Difference& key : differences(resolved(kBase), resolved(kBase, sets))) {
    if (!key.derived && shapes_curve(key)) keys.push_back(key.path);
  }
  return keys;
}

TEST(CurveKeys, AreThoseOfModelDataBatchAndOptimizer) {
  EXPECT_THAT(shaping({"batch.global=16", "lr.peak=7", "model.dropout=0.5", "run.seed=1"}),
              ElementsAre("run.seed", "batch.global", "model.dropout", "lr.peak"));
  EXPECT_THAT(shaping({"run.steps=20",
                       "run.out=x",
                       "parallel.data=2",
                       "checkpoint.keep=7",
                       "device.threads=1",
                       "validation.every_steps=5",
                       "observers.z.type=console"}),
              IsEmpty());
  EXPECT_THAT(shaping({"data.path=elsewhere"}), IsEmpty()) << "contents are compared";
  EXPECT_THAT(shaping({"checkpoint.init_from=x", "parallel.gradient_dtype=bf16"}),
              ElementsAre("parallel.gradient_dtype", "checkpoint.init_from"));
}

}  // namespace structure_test
}  // namespace tessera
