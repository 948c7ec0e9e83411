#include "kernel/config/dump.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <random>

#include "tests/common/test_folder.hpp"
#include "tests/unit/config/config_support.hpp"

namespace tessera {
namespace dump_test {

using testing::kLeast;
using testing::resolved;
const std::string kBase(kLeast);

/// The part of a dump that begins with the header of a table, up to an empty line.
std::string part(const std::string& text, const std::string& header) {
  const auto begin = text.find(header + "\n");
  if (begin == std::string::npos) return "no " + header;
  return text.substr(begin, text.find("\n\n", begin) + 1 - begin);
}

// What a variant inherits follows from the slot that it is like, also after a dump was loaded.
TEST(Dump, VariantsKeepWhatTheyWrite) {
  const std::string text = dump(resolved(kBase + R"([model.block.mlp]
type = "moe"
top_k = 1
[model.blocks.a]
[model.blocks.b.mlp]
top_k = 2
)"));
  EXPECT_EQ(part(text, "[model.blocks.a]"),
            "[model.blocks.a]\n"
            "# type = \"block\"                              # default\n");
  EXPECT_EQ(part(text, "# [model.blocks.a.mlp]"),
            "# [model.blocks.a.mlp]\n"
            "# type = \"moe\"                                # from model.block.mlp.type\n"
            "# experts = 4                                 # default\n"
            "# top_k = 1                                   # from model.block.mlp.top_k\n"
            "# activation = \"gelu\"                         # default\n");
  EXPECT_THAT(part(text, "[model.blocks.b.mlp]"), ::testing::HasSubstr("\ntop_k = 2 "));
  const Resolved again = resolved(text, {"model.block.mlp.top_k=3"});
  EXPECT_THAT(values_text(again), ::testing::HasSubstr("model.blocks.a.mlp.top_k = 3\n"));
  EXPECT_THAT(values_text(again), ::testing::HasSubstr("model.blocks.b.mlp.top_k = 2\n"));
}

TEST(Dump, LinesCarryTheirOrigin) {
  const std::string text =
      dump(resolved(kBase, {"model.block.norm.eps=0.1", "model.block.mlp.gate.type=none"}));
  EXPECT_TRUE(text.starts_with("schema = 1\n\n[run]\n")) << text;
  EXPECT_EQ(part(text, "[batch]"),
            "[batch]\n"
            "global = 8                                    # a.toml:5:10\n"
            "micro = 2                                     # a.toml:6:9\n"
            "sequence_length = 16                          # a.toml:7:19\n");
  EXPECT_EQ(part(text, "[schedule]"),
            "[schedule]\n"
            "type = \"auto\"                                 # default\n");
  EXPECT_EQ(part(text, "[model.block.norm]"),
            "[model.block.norm]\n"
            "# type = \"layernorm\"                          # default\n"
            "eps = 0.1                                     # --set #1\n"
            "# bias = true                                 # default\n");
  EXPECT_EQ(part(text, "[model.block.mlp]"),
            "[model.block.mlp]\n"
            "# type = \"dense\"                              # default\n"
            "# hidden = 64                                 # from model.hidden\n"
            "# ffn = 64                                    # from model.block.mlp.hidden\n"
            "# activation = \"gelu\"                         # default\n");
  EXPECT_EQ(part(text, "[model.block.mlp.gate]"),
            "[model.block.mlp.gate]\n"
            "type = \"none\"                                 # --set #2\n");
  EXPECT_EQ(part(text, "# [optimizer.rule]"),
            "# [optimizer.rule]\n"
            "# type = \"adamw\"                              # default\n"
            "# beta1 = 0.9                                 # default\n"
            "# beta2 = 0.95                                # default\n"
            "# weight_decay = 0.01                         # default\n");
}

/// What a resolved configuration means: values, and which are set.
std::string meaning(const Resolved& r) {
  std::string out;
  for (const auto& [path, entry] : r.tree->entries()) {
    // A dump writes the kernel's own paths out: from another folder they would be others.
    const std::string from = path == "run.out" || path == "checkpoint.out" ? "" : entry.from;
    if (entry.value) out += path + " = " + entry.value->text() + " " + from + "\n";
  }
  for (const Named<Observer>& o : r.run.observers) out += o.name + " " + o.component.type + "\n";
  return out + fmt::format("{} {} {} {} {}",
                           r.run.run.out,
                           r.run.comm.ranks.value_or(0),
                           r.run.checkpoint.resume,
                           r.run.model.type,
                           r.run.run.seed);
}

void expect_round_trip(const Resolved& first) {
  const std::string text = dump(first);
  const Resolved second = resolved(text);
  EXPECT_EQ(meaning(first), meaning(second)) << text;
  EXPECT_TRUE(diff(first, second).empty());
  // What a component sees as set, it sees again: defaults must stay defaults for parents to
  // override them.
  for (const auto& [path, entry] : first.tree->entries()) {
    const bool kernels = parent_of(path).find('.') == std::string_view::npos;
    if (entry.value && !kernels) {
      EXPECT_EQ(entry.is_set(), second.tree->find(path)->is_set()) << path;
    }
  }
}

TEST(Dump, LoadsBackToTheSame) {
  expect_round_trip(resolved(kBase));
  expect_round_trip(resolved(kBase,
                             {"model.block.mlp.type=moe",
                              "model.block.mlp.dispatcher.type=alltoall",
                              "model.block.mlp.dispatcher.capacity=1.5",
                              "optimizer.groups.head.match=\"a \\\"b\\\" \\n c\"",
                              "observers.z.type=console",
                              "observers.console.every_steps=2",
                              "observers.metrics.type=none",
                              "checkpoint.resume=x/y",
                              "plugins.path=[\"p\", \"/q\"]",
                              "graph.type=none"}));
}

TEST(Dump, ChangesForPeople) {
  const Resolved before = resolved(kBase),
                 now = resolved(kBase, {"run.seed=7", "observers.metrics.type=none"});
  EXPECT_EQ(changes(differences(before, now)),
            (std::vector<std::string>{"run.seed: 1234, now 7",
                                      "observers.metrics.type: \"metrics\", now \"none\""}));
  EXPECT_TRUE(changes(differences(now, now)).empty());
  EXPECT_EQ(changes(differences(before, resolved(kBase, {"model.hidden=128"}))),
            (std::vector<std::string>{"model.hidden: 64, now 128"}))
      << "what follows from it is not told";
}

TEST(Dump, LoadsBackFromAnotherFolder) {
  const Resolved first = resolved(kBase, {"run.out=here"});
  const testing::TestFolder folder;
  const std::string file = folder.write("resolved.toml", dump(first));
  testing::SampleCatalog catalog;
  const Resolved second = resolve(Config::load({file}), catalog);
  EXPECT_EQ(meaning(first), meaning(second));
}

TEST(Dump, WhatFollowsFromAKeyFollowsItWhereTheDumpIsLoadedWithAnother) {
  const testing::TestFolder folder;
  const std::string file =
      folder.write("resolved.toml", dump(resolved(kBase, {"run.out=" + folder.at("first")})));
  testing::SampleCatalog catalog;
  const RunConfig again =
      resolve(Config::load({file}, {"run.out=" + folder.at("second")}), catalog).run;
  EXPECT_EQ(again.run.out, folder.at("second"));
  EXPECT_EQ(again.checkpoint.out, folder.at("second/checkpoints"));
}

/// One of many keys with one of the values that it takes.
struct Choice {
  const char* key;
  std::vector<const char*> values;
};

TEST(Dump, LoadsBackToTheSameForManyConfigurations) {
  const std::vector<Choice> choices = {
      {"run.name", {"a", "7", "\"x # y\"", "ä"}},
      {"run.seed", {"0", "99"}},
      {"run.out", {"o", "/abs/o"}},
      {"device.threads", {"2", "auto"}},
      {"comm.type", {"threads", "auto"}},
      {"comm.ranks", {"4", "auto"}},
      {"comm.timeout_s", {"1", "0.5", "1e-3"}},
      {"parallel.order", {"tp-cp-ep-dp-pp", "tp-pp-dp"}},
      {"model.vocab", {"100", "auto"}},
      {"precision.compute", {"bf16", "fp16"}},
      {"precision.loss_scale", {"dynamic", "1024", "1.5"}},
      {"model.dropout", {"0", "0.1"}},
      {"model.block.norm.bias", {"true", "false"}},
      {"model.block.norm.eps", {"1e-6", "1"}},
      {"model.block.mlp.type", {"dense", "moe"}},
      {"model.block.mlp.activation", {"relu", "silu"}},
      {"optimizer.rule.type", {"adamw", "sgd"}},
      {"optimizer.rule.weight_decay", {"0", "0.3"}},
      {"optimizer.groups.a.match", {"*"}},
      {"optimizer.groups.b", {"{match = \"b\", lr_scale = 2}"}},
      {"data.splits", {"[1]", "[1, 2, 3]", "[]"}},
      {"data.exclude", {"[]", "[\"x\", \"y\"]"}},
      {"observers.console.every_steps", {"1", "10"}},
      {"observers.other", {"{type = \"console\"}"}},
      {"checkpoint.resume", {"auto", "none", "from/here"}},
  };
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    std::vector<std::string> sets;
    std::string shown;
    for (const Choice& choice : choices) {
      if (random() % 2 == 0) continue;
      const char* value = choice.values[random() % choice.values.size()];
      sets.push_back(fmt::format("{}={}", choice.key, value));
      shown += sets.back() + "\n";
    }
    SCOPED_TRACE(shown);
    expect_round_trip(resolved(kBase, sets));
    if (HasFailure()) return;
  }
}

TEST(Diff, ShowsChangedAndLoneKeys) {
  EXPECT_TRUE(diff(resolved(kBase), resolved(kBase)).empty());
  const std::vector<std::string> lines =
      diff(resolved(kBase), resolved(kBase, {"model.layers=3", "optimizer.rule.type=sgd"}));
  EXPECT_EQ(lines,
            (std::vector<std::string>{"- model.layers = 2",
                                      "+ model.layers = 3",
                                      "- optimizer.rule.type = \"adamw\"",
                                      "+ optimizer.rule.type = \"sgd\"",
                                      "- optimizer.rule.beta1 = 0.9",
                                      "- optimizer.rule.beta2 = 0.95",
                                      "- optimizer.rule.weight_decay = 0.01",
                                      "+ optimizer.rule.weight_decay = 0.0",
                                      "+ optimizer.rule.momentum = 0.0"}));
}

TEST(Diff, LeavesOutWhatFollowsFromOtherKeys) {
  // Layers take the features of the model, the run's folder its name, checkpoints that folder.
  EXPECT_EQ(diff(resolved(kBase), resolved(kBase, {"model.hidden=128", "run.name=b"})),
            (std::vector<std::string>{"- run.name = \"run\"",
                                      "+ run.name = \"b\"",
                                      "- model.hidden = 64",
                                      "+ model.hidden = 128"}));
  // What one side writes is shown, though the other side derives it.
  EXPECT_EQ(diff(resolved(kBase), resolved(kBase, {"run.out=/x"})).size(), 2U);
}

TEST(Diff, ValuesCountAndNotWhereTheyComeFrom) {
  EXPECT_TRUE(
      diff(resolved(kBase), resolved(kBase, {"model.layers=2", "model.dropout=0"})).empty());
}

TEST(ValuesText, SaysTheSameWhereverValuesComeFrom) {
  const std::string text = values_text(resolved(kBase));
  EXPECT_THAT(text, ::testing::HasSubstr("\nmodel.layers = 2\n"));
  EXPECT_EQ(values_text(resolved(kBase, {"model.layers=2", "model.dropout=0"})), text);
  EXPECT_NE(values_text(resolved(kBase, {"model.layers=3"})), text);
  EXPECT_NE(dump(resolved(kBase, {"model.layers=2"})), dump(resolved(kBase)));
}

}  // namespace dump_test
}  // namespace tessera
