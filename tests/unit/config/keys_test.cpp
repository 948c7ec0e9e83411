#include "kernel/config/keys.hpp"

#include <gmock/gmock.h>

#include <algorithm>

#include "kernel/checkpoint/disk.hpp"
#include "tests/unit/config/config_support.hpp"

namespace tessera {
namespace keys_test {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::problems_of;
const std::string kBase(testing::kLeast);

std::vector<KeyTable> tables() { return key_tables(testing::SampleCatalog()); }

const KeyTable& table(const std::vector<KeyTable>& tables,
                      const std::string& kind,
                      const std::string& type) {
  return *std::ranges::find_if(tables,
                               [&](const KeyTable& t) { return t.kind == kind && t.type == type; });
}

TEST(Keys, EveryComponentHasAPlace) {
  const auto all = tables();
  EXPECT_EQ(table(all, "model", "gpt").path, "model");
  EXPECT_EQ(table(all, "layer", "dense").path, "model.block.mlp");
  EXPECT_TRUE(table(all, "layer", "dense").initial);
  // An alternative stands where a slot of its kind is.
  EXPECT_EQ(table(all, "rule", "sgd").path, "optimizer.rule");
  EXPECT_FALSE(table(all, "rule", "sgd").initial);
  EXPECT_EQ(table(all, "layer", "moe").path, "model.block.mlp") << "the slot that is most like it";
  EXPECT_EQ(table(all, "observer", "metrics").path, "observers.metrics");
  for (const std::string name : {"parallel", "batch", "comm"}) {
    EXPECT_THAT(all, Contains(::testing::Field(&KeyTable::path, name)));
  }
}

TEST(Keys, ARowSaysTypeDefaultTextAndFlag) {
  const auto all = tables();
  const auto parallel = std::ranges::find(all, "parallel", &KeyTable::path);
  const auto row = std::ranges::find(parallel->rows, "tensor", &KeyRow::name);
  EXPECT_EQ(row->type, "integer in [1, 32768]");
  EXPECT_EQ(row->initial, "1");
  EXPECT_EQ(row->megatron, "--tensor-model-parallel-size");
  EXPECT_EQ(row->doc, "ranks that share each matrix");
  EXPECT_EQ(table(all, "layer", "dense").rows.front().initial, "from model.hidden");
}

TEST(Keys, ASectionIsATableAndWhatIsInIt) {
  std::vector<std::string> paths;
  for (const KeyTable& t : tables_below(tables(), "optimizer")) {
    paths.push_back(t.path + " " + t.type);
  }
  EXPECT_THAT(
      paths,
      ElementsAre(
          "optimizer ", "optimizer replicated", "optimizer.rule adamw", "optimizer.rule sgd"));
  EXPECT_THAT(testing::error_of([] { tables_below(tables(), "optimiser"); }),
              AllOf(HasSubstr("there is no table [optimiser]; did you mean [optimizer]?"),
                    HasSubstr("sections: run, device")));
}

TEST(Keys, FlagsLeadToKeys) {
  const auto flags = keys_by_flag(tables());
  EXPECT_THAT(flags.at("--micro-batch-size"), ElementsAre("batch.micro"));
  EXPECT_EQ(flags.at("--bf16"), flags.at("--fp16"));
  EXPECT_THAT(megatron_markdown(tables()), HasSubstr("| `--micro-batch-size` | `batch.micro` |\n"));
}

TEST(Keys, MarkdownKeepsItsColumns) {
  const std::string page = keys_markdown(tables());
  EXPECT_THAT(page, HasSubstr("\n## [parallel]\n\nThe layout of the ranks.\n"));
  EXPECT_THAT(page, HasSubstr("| `mode` | \"none\" \\| \"full\" \\| \"selective\" |"));
  EXPECT_THAT(page, Not(HasSubstr("/home")));
}

// --- hints of errors ---

TEST(KeyHints, AMegatronFlagIsNamedWhereverItIsWritten) {
  for (const std::string key :
       {"micro_batch_size", "batch.micro_batch_size", "model.micro-batch-size"}) {
    EXPECT_THAT(problems_of(kBase, {key + "=4"}),
                HasSubstr(": Megatron-LM's --micro-batch-size is batch.micro here"))
        << key;
  }
  EXPECT_THAT(
      problems_of(kBase + "[training]\ntrain_iters = 3\ntensor_model_parallel_size = 2\n"),
      HasSubstr("unknown section [training]: Megatron-LM's --train-iters is run.steps here, "
                "Megatron-LM's --tensor-model-parallel-size is parallel.tensor here"));
  EXPECT_THAT(problems_of(kBase, {"moe.num_layers=8"}),
              HasSubstr("unknown section [moe]: Megatron-LM's --num-layers is model.layers here"));
  EXPECT_THAT(problems_of(kBase, {"parallel.tp=2"}), HasSubstr("tp is parallel.tensor here"));
  EXPECT_THAT(problems_of(kBase, {"optimizer.use_distributed_optimizer=true"}),
              HasSubstr("--use-distributed-optimizer is optimizer.type = \"distributed\" here"));
  EXPECT_THAT(problems_of(kBase + "[trainer]\nseed = 3\n"), HasSubstr("seed belongs to [run]"));
}

// Each of the tables of configs/MEGATRON.md that are written by hand is in the one that is made
// from keys, or has a hint of its own.
TEST(KeyHints, EachFlagOfThePageForMegatronsUsersHasOne) {
  const std::string page = read_text_file(TESSERA_SOURCE_DIR "/configs/MEGATRON.md");
  const std::size_t made = page.find("## Flags");
  int found = 0;
  for (std::size_t at = page.find("`--"); at < made; at = page.find("`--", at + 1)) {
    const std::size_t end = page.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-", at + 1);
    const std::string flag = page.substr(at + 1, end - at - 1);
    if (flag == "--set") continue;
    const bool key = page.find("| `" + flag + "` |", made) != page.npos;
    EXPECT_TRUE(key || !flag_hint({}, flag).empty()) << flag;
    ++found;
  }
  EXPECT_GT(found, 20);
}

TEST(KeyHints, AComponentOfAnotherKindIsNamedWithItsTable) {
  EXPECT_THAT(problems_of(kBase, {"optimizer.type=adamw"}),
              HasSubstr("no optimizer plugin of that name; \"adamw\" is a rule: write "
                        "[optimizer.rule] type = \"adamw\""));
  EXPECT_THAT(problems_of(kBase, {"optimizer=adam"}),
              HasSubstr("optimizer is the table of an optimizer, and \"adamw\" is a rule: write "
                        "[optimizer.rule] type = \"adamw\""));
  EXPECT_THAT(problems_of(kBase, {"optimizer.type=constant"}),
              HasSubstr("\"constant\" is an lr: write [lr] type = \"constant\""));
}

TEST(KeyHints, AValueWhereATableIsNeeded) {
  EXPECT_THAT(problems_of(kBase, {"data=3"}),
              HasSubstr("`tessera config keys data` lists its keys"));
  EXPECT_THAT(problems_of(kBase, {"observers.console=none"}),
              HasSubstr("console is the table of an observer: write [observers.console] type = "
                        "\"none\""));
  EXPECT_THAT(problems_of(kBase, {"data=texts/gpl.txt"}),
              HasSubstr("data is the table of a dataset: write [data] path = \"texts/gpl.txt\""));
}

}  // namespace keys_test
}  // namespace tessera
