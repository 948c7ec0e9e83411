#include "kernel/config/keys.hpp"

#include <gmock/gmock.h>

#include <algorithm>

#include "kernel/config/key_names.hpp"
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

TEST(Keys, ARowSaysThatItIsStructural) {
  const auto all = tables();
  const auto& rows = table(all, "module", "layernorm").rows;
  EXPECT_TRUE(rows.front().structural) << rows.front().name;
  EXPECT_FALSE(rows.back().structural) << rows.back().name;
  EXPECT_THAT(rows_text(rows), HasSubstr("added to the variance (structural)\n"));
  EXPECT_THAT(keys_markdown(all), HasSubstr("| added to the variance (structural) |"));
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
  EXPECT_THAT(testing::error_of([] { tables_below(tables(), "x\ny"); }),
              HasSubstr("there is no table [x\\ny]"));
}

// A table of any name is a row of the one around it; variants are like the table that they vary.
TEST(Keys, ATableOfAnyNameIsShown) {
  const auto rows = [](const std::string& section) {
    std::vector<std::string> names;
    for (const KeyTable& t : tables_below(tables(), section)) {
      for (const KeyRow& row : t.rows) names.push_back("[" + t.path + "] " + row.name);
    }
    return names;
  };
  EXPECT_THAT(rows("optimizer.groups"),
              ElementsAre("[optimizer] groups",
                          "[optimizer] groups.NAME.match",
                          "[optimizer] groups.NAME.lr_scale"));
  EXPECT_THAT(rows("optimizer.groups.mine"),
              ElementsAre("[optimizer] groups.NAME.match", "[optimizer] groups.NAME.lr_scale"));
  EXPECT_THAT(rows("observers.mine"), ElementsAre("[observers] NAME.type"));
  EXPECT_THAT(rows("model.blocks"), ElementsAre("[model] blocks.NAME"));
  EXPECT_THAT(rows("model.blocks.dense"),
              AllOf(Contains("[model] blocks.NAME"),
                    Contains("[model.block] norm.type"),
                    Contains("[model.block.mlp] ffn"),
                    Not(Contains("[model] layers"))));
  EXPECT_THAT(rows("model.blocks.dense.mlp"),
              AllOf(Contains("[model.block.mlp] ffn"), Not(Contains("[model] blocks.NAME"))));
  EXPECT_THAT(rows("model.block.mlp.gate"), ElementsAre("[model.block.mlp] gate.type"));
}

TEST(Keys, AKeyIsNoTableButInOne) {
  const auto answer = [](const std::string& section) {
    return testing::error_of([&] { tables_below(tables(), section); });
  };
  for (const std::string path : {"lr.peak", "peak", "model.peak"}) {
    EXPECT_EQ(answer(path),
              "there is no table [" + path + "]; [lr] has the key peak: tessera config keys lr");
  }
  EXPECT_THAT(answer("momentum"), HasSubstr("[optimizer.rule] has the key momentum"));
  EXPECT_THAT(answer("hidden"), HasSubstr("[model], [model.block"));
  EXPECT_THAT(answer("hidden"), HasSubstr(" have the key hidden: tessera config keys model"));
  EXPECT_THAT(answer("optimizer.groups.mine.match"),
              HasSubstr("[optimizer.groups.NAME] has the key match: tessera config keys "
                        "optimizer.groups.NAME"));
  EXPECT_THAT(answer("model.blocks.dense.hidden"), HasSubstr("[model.block] has the key hidden"));
}

TEST(Keys, FlagsLeadToKeys) {
  const KeyNames names(tables());
  const auto& flags = names.flags();
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
  EXPECT_THAT(
      problems_of(kBase, {"moe.num_layers=8"}),
      HasSubstr("unknown section [moe]: did you mean [model]? Megatron-LM's --num-layers is "
                "model.layers here"));
  EXPECT_THAT(problems_of(kBase, {"parallel.tp=2"}), HasSubstr("tp is parallel.tensor here"));
  EXPECT_THAT(problems_of(kBase, {"optimizer.use_distributed_optimizer=true"}),
              HasSubstr("--use-distributed-optimizer is optimizer.type = \"distributed\" here"));
  EXPECT_THAT(problems_of(kBase + "[trainer]\nseed = 3\n"), HasSubstr("seed belongs to [run]"));
}

TEST(KeyHints, NamesOfOtherProgramsLeadToOurs) {
  EXPECT_THAT(problems_of(kBase, {"model.n_layer=3"}), HasSubstr("n_layer is model.layers here"));
  EXPECT_THAT(problems_of(kBase, {"batch_size=3"}),
              HasSubstr("before any section: batch_size is batch.global here"));
  EXPECT_THAT(problems_of(kBase, {"parallel.world_size=2"}),
              HasSubstr("world_size follows from [parallel] here"));
  EXPECT_THAT(problems_of(kBase, {"model.tokenizer=byte"}),
              HasSubstr("unknown key \"tokenizer\": [tokenizer] is a section of its own"));
}

// At the root nobody means a key: [checkpoint] has a `save` of its own, a boolean.
TEST(KeyHints, AtTheRootAFlagComesBeforeAKeyOfItsName) {
  EXPECT_THAT(problems_of(kBase, {"save=/tmp/x"}),
              HasSubstr("unknown key \"save\" before any section: Megatron-LM's --save is "
                        "checkpoint.out here"));
  EXPECT_THAT(problems_of(kBase, {"steps=3"}), HasSubstr("it belongs to [run]"));
  EXPECT_THAT(problems_of(kBase, {"run.save=true"}), HasSubstr("it belongs to [checkpoint]"));
}

TEST(KeyHints, AKeyOfAComponentThatIsNotChosenLeadsToIt) {
  EXPECT_THAT(problems_of(kBase, {"model.experts=8"}),
              HasSubstr("it belongs to [model.block.mlp] with type = \"moe\""));
  EXPECT_THAT(problems_of(kBase, {"lr.momentum=0.9"}),
              HasSubstr("it belongs to [optimizer.rule] with type = \"sgd\""));
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
  EXPECT_THAT(problems_of(kBase, {"lr.type=adamw"}),
              HasSubstr("\"adamw\" is a rule: write [optimizer.rule] type = \"adamw\""));
  EXPECT_THAT(problems_of(kBase, {"model.type=moe"}),
              HasSubstr("\"moe\" is a layer: write [model.block.mlp] type = \"moe\""));
  // Any word is near some name of another kind: "none" is a graph policy.
  EXPECT_THAT(problems_of(kBase, {"comm.type=nope"}),
              AllOf(HasSubstr("no communicator plugin of that name\n"), Not(HasSubstr("[graph]"))));
  EXPECT_THAT(problems_of(kBase, {"lr.type=mo"}), Not(HasSubstr("moe")));
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
