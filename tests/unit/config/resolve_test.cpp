#include "kernel/config/resolve.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "tessera/dispatcher.hpp"
#include "tessera/layer.hpp"
#include "tests/common/environment.hpp"
#include "tests/common/test_folder.hpp"
#include "tests/unit/config/config_support.hpp"

namespace tessera {
namespace resolve_test {

using testing::kLeast;
using testing::problems_of;
using testing::resolved;
const std::string kBase(kLeast);

std::string value(const Resolved& r, std::string_view path) {
  const Entry* entry = r.tree->find(path);
  return entry == nullptr || !entry->value ? "nothing" : entry->value->text();
}

// Problems without the source lines below them.
std::string headlines(const std::vector<std::string>& sets) {
  std::istringstream in(problems_of(kBase, sets));
  std::string text;
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(' ')) text += (text.empty() ? "" : "\n") + line;
  }
  return text;
}

TEST(Resolve, DefaultsOfTheKernelsSections) {
  const RunConfig c = resolved(kBase).run;
  const auto here = std::filesystem::current_path();
  EXPECT_EQ(c.run.name, "run");
  EXPECT_EQ(c.run.seed, 1234U);
  EXPECT_EQ(c.run.steps, 10);
  EXPECT_EQ(c.run.out, here / "runs/run");
  EXPECT_EQ(c.device.device.type, "cpu");
  EXPECT_EQ(c.device.device.path, "device");
  EXPECT_FALSE(c.device.threads.has_value());
  EXPECT_TRUE(c.plugins.path.empty());
  EXPECT_EQ(c.comm.communicator.type, "auto");
  EXPECT_FALSE(c.comm.ranks.has_value());
  EXPECT_EQ(c.comm.timeout_s, 60);
  EXPECT_EQ(c.comm.init_timeout_s, 300);
  EXPECT_EQ(c.parallel.tensor, 1);
  EXPECT_FALSE(c.parallel.data.has_value());
  EXPECT_EQ(c.parallel.order, "tp-cp-ep-dp-pp");
  EXPECT_EQ(c.batch.global, 8);
  EXPECT_EQ(c.batch.micro, 2);
  EXPECT_EQ(c.model.type, "gpt");
  EXPECT_EQ(c.model.path, "model");
  EXPECT_EQ(c.precision.compute, "fp32");
  EXPECT_FALSE(c.precision.loss_scale.has_value());
  EXPECT_EQ(c.schedule.type, "auto");
  EXPECT_EQ(c.graph.type, "none");
  EXPECT_EQ(c.optimizer.type, "replicated");
  EXPECT_EQ(c.lr.type, "constant");
  EXPECT_EQ(c.data.type, "text");
  EXPECT_EQ(c.checkpoint.resume, "auto");
  EXPECT_EQ(c.checkpoint.out, here / "runs/run/checkpoints");
  EXPECT_EQ(c.validation.every_steps, 0);
  EXPECT_EQ(c.check.replicas_every, 0);
  ASSERT_EQ(c.observers.size(), 3U);
  EXPECT_EQ(c.observers[0].component.type, "console");
  EXPECT_EQ(c.observers[1].component.type, "metrics");
  EXPECT_EQ(c.observers[2].component.type, "report");
  EXPECT_TRUE(c.checkpoint.save);
}

TEST(Resolve, PathsBeginAtTheHomeFolder) {
  const testing::EnvironmentVariable home("HOME", "/home/ann");
  const RunConfig c = resolved(kBase,
                               {"run.out=~/a",
                                "checkpoint.out=~/b",
                                "checkpoint.resume=~/c",
                                "checkpoint.init_from=~",
                                "data.path=~/d"})
                          .run;
  EXPECT_EQ(c.run.out, "/home/ann/a");
  EXPECT_EQ(c.checkpoint.out, "/home/ann/b");
  EXPECT_EQ(c.checkpoint.resume, "/home/ann/c");
  EXPECT_EQ(c.checkpoint.init_from, "/home/ann");
  EXPECT_EQ(value(resolved(kBase, {"data.path=~/d"}), "data.path"), "\"/home/ann/d\"");
  const std::string why =
      "only \"~/\" is read as a home folder, that of HOME; write another user's in full, and "
      "\"./~name\" for a name that begins so";
  EXPECT_EQ(
      headlines({"run.out=~bob", "data.path=~bob/d"}),
      "--set #1: [run] out: \"~bob\": " + why + "\n--set #2: [data] path: \"~bob/d\": " + why);
}

TEST(Resolve, TheNameOfARunKeepsItsFolderWithinRuns) {
  const auto out = [](const std::string& name) {
    return std::filesystem::path(resolved(kBase, {"run.name=" + name}).run.run.out)
        .lexically_relative(std::filesystem::current_path())
        .string();
  };
  EXPECT_EQ(out("a/b"), "runs/a/b");
  EXPECT_EQ(out("a/../b"), "runs/b");
  EXPECT_EQ(out("/a"), "runs/a");
  EXPECT_EQ(out("..a"), "runs/..a");
  const auto refused = [](const std::string& name, const std::string& folder) {
    EXPECT_EQ(headlines({"run.name=\"" + name + "\""}),
              "--set #1: [run] name = \"" + name + "\" would make \"" + folder +
                  "\" the run's folder, which is not one within \"runs\": give another name, or "
                  "the folder as run.out");
  };
  refused("../x", "x");
  refused("a/../../x", "x");
  refused("..", ".");
  refused(".", "runs/");
  refused("a/..", "runs/");
  EXPECT_EQ(resolved(kBase, {"run.name=../x", "run.out=o"}).run.run.name, "../x");
  EXPECT_EQ(headlines({"run.name=\"\"", "run.out=o"}),
            "--set #1: [run] name is empty: give one, or leave the key out for \"run\"");
}

TEST(Resolve, AnObserverMayBeNone) {
  const RunConfig c =
      resolved(kBase, {"observers.metrics.type=none", "observers.console.every_steps=2"}).run;
  ASSERT_EQ(c.observers.size(), 2U);
  EXPECT_EQ(c.observers[0].name, "console");
  EXPECT_EQ(c.observers[1].name, "report");
}

TEST(Resolve, ValuesOfTheKernelsSections) {
  const RunConfig c = resolved(kBase + R"([device]
threads = 3
[comm]
type = "threads"
ranks = 4
timeout_s = 5
[parallel]
tensor = 2
data = 2
[precision]
main = "fp64"
[checkpoint]
resume = "old/step-3"
out = "ck"
[observers.b]
type = "console"
[observers.console]
)",
                               {"run.name=42", "run.out=o"})
                          .run;
  const auto here = std::filesystem::current_path();
  EXPECT_EQ(c.run.name, "42");  // the schema says string
  EXPECT_EQ(c.run.out, here / "o");
  EXPECT_EQ(c.device.threads, 3);
  EXPECT_EQ(c.comm.communicator.type, "threads");
  EXPECT_EQ(c.comm.ranks, 4);
  EXPECT_EQ(c.comm.timeout_s, 5.0);
  EXPECT_EQ(c.parallel.tensor, 2);
  EXPECT_EQ(c.parallel.data, 2);
  EXPECT_EQ(c.precision.main, "fp64");
  EXPECT_EQ(c.checkpoint.resume, here / "old/step-3");
  EXPECT_EQ(c.checkpoint.out, here / "ck");
  ASSERT_EQ(c.observers.size(), 4U);
  EXPECT_EQ(c.observers[0].name, "b");
  EXPECT_EQ(c.observers[0].component.type, "console");
  EXPECT_EQ(c.observers[1].component.type, "console");
  EXPECT_EQ(c.observers[1].component.path, "observers.console");
}

TEST(Resolve, TreeHoldsDefaultsOfAllSlots) {
  const Resolved r = resolved(kBase);
  EXPECT_EQ(value(r, "model.layers"), "2");
  EXPECT_EQ(value(r, "model.block.norm.type"), "\"layernorm\"");
  EXPECT_EQ(value(r, "model.block.norm.eps"), "1e-05");
  EXPECT_EQ(value(r, "optimizer.rule.beta1"), "0.9");
  EXPECT_EQ(value(r, "model.block.mlp.gate.type"), "\"\"");
  EXPECT_EQ(value(r, "model.block.hidden"), "nothing");  // given
  const auto node = r.node("model.block.norm");
  EXPECT_EQ(node->find("eps"), nullptr);  // it is not set
  EXPECT_EQ(*node->absolute("model.layers"), Value(2));
}

TEST(Resolve, FromFollowsOtherKeys) {
  const Resolved r = resolved(kBase);
  EXPECT_EQ(value(r, "model.block.mlp.hidden"), "64");
  EXPECT_EQ(value(r, "model.block.mlp.ffn"), "64");  // through mlp.hidden, which is taken itself
  EXPECT_EQ(r.node("model.block.mlp")->origin("ffn"), "a.toml:9:10, from model.block.mlp.hidden");
  EXPECT_EQ(value(resolved(kBase, {"model.block.mlp.hidden=16"}), "model.block.mlp.ffn"), "16");
}

TEST(Resolve, ComponentPathsBecomeAbsolute) {
  const auto here = std::filesystem::current_path();
  EXPECT_EQ(value(resolved(kBase), "data.path"), Value((here / "corpus").string()).text());
  EXPECT_EQ(value(resolved(kBase, {"data.path=s3://x/y"}), "data.path"), "\"s3://x/y\"");
  EXPECT_EQ(*resolved(kBase).node("data")->find("path"), Value((here / "corpus").string()));
}

// Whatever their names: the schema says which keys are paths.
TEST(Resolve, PathKeysCountFromTheFileThatWroteThem) {
  const testing::TestFolder folder;
  const std::filesystem::path root = folder.path();
  const std::string base = folder.write(
      "lib/base.toml", "data.lists = [\"a\", \"/b\"]\ndata.cache = \"c\"\ndata.exclude = \"d\"\n");
  const std::string top =
      folder.write("top.toml", std::string(kLeast) + "[checkpoint]\nresume = \"r\"\n");
  testing::SampleCatalog catalog;
  const Resolved r = resolve(Config::load({top, base}, {"checkpoint.init_from=i"}), catalog);
  const auto here = std::filesystem::current_path();
  EXPECT_EQ(*r.tree->find("data.lists")->value,
            Value(Value::Array{(root / "lib/a").string(), "/b"}));
  EXPECT_EQ(*r.tree->find("data.path")->value, Value((root / "corpus").string()));
  EXPECT_EQ(*r.tree->find("data.cache")->value, Value((root / "lib/c").string()));
  EXPECT_EQ(*r.tree->find("data.copy")->value, Value((root / "lib/c").string()));
  EXPECT_EQ(*r.tree->find("data.exclude")->value, Value(Value::Array{"d"}));
  EXPECT_EQ(r.run.checkpoint.resume, (root / "r").string());
  EXPECT_EQ(r.run.checkpoint.init_from, (here / "i").string());
}

// Nothing may be concluded from values that do not say what was meant.
TEST(Resolve, ProblemsMakeDoubtfulWhatTheyMayMean) {
  using Names = std::set<std::string>;
  testing::SampleCatalog catalog;
  const auto doubtful = [&](const std::string& more, const std::vector<std::string>& sets = {}) {
    return check(Config::parse(kBase + more, "a.toml", sets), catalog).resolved.doubtful;
  };
  EXPECT_EQ(doubtful(""), Names{});
  EXPECT_EQ(doubtful("splits = [-1]\n"), Names{"data"});
  EXPECT_EQ(doubtful("[zzz]\n"), Names{});  // meant for none
  EXPECT_EQ(doubtful("[optimizer.rule]\nzzz = 1\n"), Names{});
  EXPECT_EQ(doubtful("[optimizr]\n"), Names{"optimizer"});  // it is near
  EXPECT_EQ(doubtful("", {"batch.mcro=1"}), Names{"batch.micro"});
  EXPECT_EQ(doubtful("beta1 = 1\n"), Names{"optimizer.rule.beta1"});  // it belongs there
  EXPECT_EQ(doubtful("num_layers = 4\n"), Names{"model.layers"});     // a flag of Megatron-LM
  EXPECT_EQ(doubtful("", {"model.hidden=0"}), Names{"model"});
  // What is taken from a doubtful key: the inner width follows the width.
  EXPECT_EQ(doubtful("", {"model.block.mlp.hiden=1"}),
            (Names{"model.block.mlp.ffn", "model.block.mlp.hidden"}));
  EXPECT_EQ(doubtful("", {"run.nme=x"}), (Names{"checkpoint.out", "run.name", "run.out"}));
  // Another type would know it, so the type may be what is wrong.
  EXPECT_EQ(doubtful("", {"optimizer.rule.type=sgd", "optimizer.rule.beta1=1"}),
            Names{"optimizer.rule.type"});
  const CheckResult wrong = check(Config::parse(kBase, "a.toml", {"run.steps=0"}), catalog);
  EXPECT_EQ(wrong.resolved.run.batch.global, 8);  // the other sections can be read
  EXPECT_EQ(wrong.resolved.run.data.type, "text");
  EXPECT_EQ(wrong.resolved.run.run.name, RunSection().name);
}

TEST(Resolve, WhatIsDoubtfulTouchesWhatIsAboveAndBelow) {
  const std::set<std::string> paths = {"model.block.mlp", "run"};
  for (const char* path : {"model", "model.block.mlp", "model.block.mlp.ffn", "run", "run.seed"}) {
    EXPECT_TRUE(touches(paths, path)) << path;
  }
  for (const char* path : {"model.layers", "model.block.mlps", "runs", "mod", "data"}) {
    EXPECT_FALSE(touches(paths, path)) << path;
  }
}

TEST(Resolve, WordsOfAPathKeyStay) {
  const Resolved r = resolved(kBase, {"checkpoint.resume=none", "data.cache=none"});
  EXPECT_EQ(r.run.checkpoint.resume, "none");
  EXPECT_EQ(value(r, "data.cache"), "\"none\"");
  // "auto" is a word of checkpoint.resume only.
  const auto here = std::filesystem::current_path();
  EXPECT_EQ(value(resolved(kBase, {"data.cache=auto"}), "data.cache"),
            Value((here / "auto").string()).text());
}

TEST(Resolve, NestedSlotsAndTables) {
  const Resolved r = resolved(kBase + R"([model.block.mlp]
type = "moe"
top_k = 1
[model.block.mlp.dispatcher]
type = "alltoall"
capacity = 2
[optimizer.groups.head]
match = "head.*"
lr_scale = 0.1
[optimizer.groups.a]
match = "a"
)");
  EXPECT_EQ(value(r, "model.block.mlp.experts"), "4");
  EXPECT_EQ(value(r, "model.block.mlp.dispatcher.capacity"), "2.0");
  EXPECT_EQ(r.node("optimizer")->tables("groups"), (std::vector<std::string>{"head", "a"}));
  EXPECT_EQ(value(r, "optimizer.groups.a.lr_scale"), "1.0");
}

const std::string kVariants = R"([model.block.mlp]
type = "moe"
experts = 8
activation = "silu"
[model.block.mlp.dispatcher]
type = "alltoall"
capacity = 2
[model.blocks.dense.mlp]
type = "dense"
ffn = 48
[model.blocks.sparse]
[model.blocks.large.mlp]
experts = 16
)";

TEST(Variants, AreTheSlotWithFurtherKeys) {
  const Resolved r = resolved(kBase + kVariants);
  EXPECT_EQ(r.node("model")->tables("blocks"),
            (std::vector<std::string>{"dense", "sparse", "large"}));
  EXPECT_EQ(value(r, "model.blocks.sparse.mlp.experts"), "8");
  EXPECT_EQ(value(r, "model.blocks.sparse.mlp.dispatcher.capacity"), "2.0");
  EXPECT_EQ(value(r, "model.blocks.sparse.norm.eps"), "1e-05");
  EXPECT_EQ(value(r, "model.blocks.large.mlp.experts"), "16");
  EXPECT_EQ(value(r, "model.blocks.large.mlp.activation"), "\"silu\"");
  EXPECT_EQ(*r.node("model.blocks.sparse.mlp")->find("experts"), Value(8));
  EXPECT_EQ(r.node("model.blocks.sparse.mlp")->origin("experts"),
            "a.toml:14:11, from model.block.mlp.experts");
  EXPECT_EQ(value(r, "model.block.mlp.experts"), "8");
}

TEST(Variants, OfAnotherTypeForgetKeysOfTheFormer) {
  const Resolved r = resolved(kBase + kVariants);
  EXPECT_EQ(value(r, "model.blocks.dense.mlp.type"), "\"dense\"");
  EXPECT_EQ(value(r, "model.blocks.dense.mlp.ffn"), "48");
  EXPECT_EQ(value(r, "model.blocks.dense.mlp.activation"), "\"silu\"");
  EXPECT_EQ(value(r, "model.blocks.dense.mlp.experts"), "nothing");
  EXPECT_EQ(value(r, "model.blocks.dense.mlp.dispatcher.capacity"), "nothing");
  EXPECT_TRUE(r.notices.empty()) << r.notices.front();
  EXPECT_EQ(problems_of(kBase + kVariants, {"model.blocks.dense.mlp.top_k=1"}),
            "--set #1: [model.blocks.dense.mlp] unknown key \"top_k\": \"moe\" knows it, but type "
            "is \"dense\" here\n"
            "      | model.blocks.dense.mlp.top_k=1\n"
            "      | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^");
}

TEST(Variants, FollowTheSlotWhereTheyWriteNothing) {
  const Resolved r = resolved(
      kBase + kVariants,
      {"model.block.norm.eps=0.1", "model.block.mlp.experts=2", "model.blocks.dense.norm.eps=0.2"});
  EXPECT_EQ(value(r, "model.blocks.sparse.norm.eps"), "0.1");
  EXPECT_EQ(value(r, "model.blocks.dense.norm.eps"), "0.2");
  EXPECT_EQ(value(r, "model.blocks.sparse.mlp.experts"), "2");
  EXPECT_EQ(value(r, "model.blocks.large.mlp.experts"), "16");  // more particular than --set
}

// What they inherit is wrong once, where it was written.
TEST(Variants, SayOnlyTheirOwnMistakes) {
  EXPECT_EQ(problems_of(kBase + kVariants,
                        {"model.block.mlp.experts=0",
                         "model.block.mlp.strange=1",
                         "model.blocks.large.mlp.top_k=0",
                         "model.blocks.dense=1"}),
            "--set #1: [model.block.mlp] experts: expected integer >= 1, got 0\n"
            "      | model.block.mlp.experts=0\n"
            "      |                         ^\n"
            "--set #2: [model.block.mlp] unknown key \"strange\"; layer \"moe\" (layer.so 0.1.0) "
            "knows type, experts, top_k, activation, dispatcher\n"
            "      | model.block.mlp.strange=1\n"
            "      | ^^^^^^^^^^^^^^^^^^^^^^^\n"
            "--set #3: [model.blocks.large.mlp] top_k: expected integer >= 1, got 0\n"
            "      | model.blocks.large.mlp.top_k=0\n"
            "      |                              ^\n"
            "--set #4: [model.blocks] holds tables: write [model.blocks.dense]\n"
            "      | model.blocks.dense=1\n"
            "      | ^^^^^^^^^^^^^^^^^^");
}

TEST(Resolve, OptionalSlotsMayBeNone) {
  EXPECT_EQ(value(resolved(kBase, {"model.block.mlp.gate.type=none"}), "model.block.mlp.gate.type"),
            "\"\"");
  EXPECT_EQ(problems_of(kBase, {"model.block.mlp.gate.type=layernorm"}), "");
  EXPECT_EQ(problems_of(kBase, {"model.block.norm.type=none"}),
            "--set #1: [model.block.norm] type = \"none\": a module is needed here\n"
            "      | model.block.norm.type=none\n"
            "      |                       ^^^^");
}

std::string overlay(const std::vector<std::string>& sets, std::vector<std::string>* notices) {
  testing::SampleCatalog catalog;
  const Config config =
      Config::parse(kBase + "[optimizer.rule]\ntype = \"adamw\"\nbeta1 = 0.8\nweight_decay = 0.3\n",
                    "a.toml",
                    sets);
  CheckResult result = check(config, catalog);
  *notices = result.resolved.notices;
  if (!result.problems.empty()) return report(result.problems);
  std::string out;
  for (const std::string& key : result.resolved.tree->children("optimizer.rule")) {
    out += key + "=" + value(result.resolved, "optimizer.rule." + key) + " ";
  }
  return out;
}

TEST(Overlay, TypeChangeKeepsSharedKeysAndDropsTheOthers) {
  std::vector<std::string> notices;
  EXPECT_EQ(overlay({"optimizer.rule.type=sgd"}, &notices),
            "type=\"sgd\" momentum=0.0 weight_decay=0.3 ");
  EXPECT_EQ(notices,
            (std::vector<std::string>{"--set #1: [optimizer.rule] is \"sgd\" now: \"beta1\" "
                                      "(a.toml:14:1) is dropped, only \"adamw\" knows it"}));
}

TEST(Overlay, KeysWrittenWithOrAfterTheNewTypeAreErrors) {
  std::vector<std::string> notices;
  EXPECT_EQ(overlay({"optimizer.rule.type=sgd", "optimizer.rule.beta2=0.9"}, &notices),
            "--set #2: [optimizer.rule] unknown key \"beta2\": \"adamw\" knows it, but type is "
            "\"sgd\" here\n"
            "      | optimizer.rule.beta2=0.9\n"
            "      | ^^^^^^^^^^^^^^^^^^^^");
  EXPECT_EQ(overlay({"optimizer.rule={type=\"sgd\", beta2=0.9}"}, &notices),
            "--set #1: [optimizer.rule] unknown key \"beta2\": \"adamw\" knows it, but type is "
            "\"sgd\" here\n"
            "      | optimizer.rule={type=\"sgd\", beta2=0.9}\n"
            "      | ^^^^^^^^^^^^^^");
}

TEST(Overlay, KeysThatNoTypeKnowsAreErrors) {
  std::vector<std::string> notices;
  const std::string text =
      overlay({"optimizer.rule.strange=1", "optimizer.rule.type=sgd"}, &notices);
  EXPECT_NE(text.find("[optimizer.rule] unknown key \"strange\""), std::string::npos) << text;
}

TEST(Overlay, TheDefaultTypeCountsAsTheEarlierOne) {
  const Resolved r = resolved(kBase, {"optimizer.rule.beta1=0.5", "optimizer.rule.type=sgd"});
  EXPECT_EQ(value(r, "optimizer.rule.beta1"), "nothing");
  EXPECT_EQ(r.notices.size(), 1U);
}

TEST(Overlay, BackAndForthKeepsEverything) {
  const Resolved r = resolved(kBase,
                              {"optimizer.rule.beta1=0.5",
                               "optimizer.rule.type=sgd",
                               "optimizer.rule.momentum=0.9",
                               "optimizer.rule.type=adamw"});
  EXPECT_EQ(value(r, "optimizer.rule.beta1"), "0.5");
  EXPECT_EQ(value(r, "optimizer.rule.momentum"), "nothing");
  ASSERT_EQ(r.notices.size(), 1U);
  EXPECT_NE(r.notices[0].find("\"momentum\""), std::string::npos);
}

TEST(Overlay, SlotsOfTheOldTypeGoWithTheirTables) {
  const std::string moe = R"([model.block.mlp]
type = "moe"
activation = "silu"
[model.block.mlp.dispatcher]
type = "alltoall"
capacity = 2.0
)";
  const Resolved r = resolved(kBase + moe, {"model.block.mlp.type=dense"});
  EXPECT_EQ(value(r, "model.block.mlp.activation"), "\"silu\"");
  EXPECT_EQ(value(r, "model.block.mlp.dispatcher.capacity"), "nothing");
  ASSERT_EQ(r.notices.size(), 1U);
  EXPECT_NE(r.notices[0].find("\"dispatcher\""), std::string::npos);
}

TEST(Overlay, ADefaultThatChangesWithTheParentCounts) {
  // Moe's dispatcher is "allgather"; a type that defaults the same slot to "alltoall" comes later.
  struct Other {
    Component<TokenDispatcher> dispatcher{"alltoall"};
    static void describe(Schema<Other>& s) { s.slot("dispatcher", &Other::dispatcher, ""); }
  };
  struct Gather {
    i64 chunks = 1;
    static void describe(Schema<Gather>& s) { s.field("chunks", &Gather::chunks, ""); }
  };
  struct Moe2 {
    Component<TokenDispatcher> dispatcher{"gather2"};
    static void describe(Schema<Moe2>& s) { s.slot("dispatcher", &Moe2::dispatcher, ""); }
  };
  testing::SampleCatalog catalog;
  catalog.add<Other>("layer", "other");
  catalog.add<Moe2>("layer", "moe2");
  catalog.add<Gather>("dispatcher", "gather2");
  const Config config = Config::parse(
      kBase + "[model.block.mlp]\ntype = \"moe2\"\n[model.block.mlp.dispatcher]\nchunks = 2\n",
      "a.toml",
      {"model.block.mlp.type=other"});
  const CheckResult result = check(config, catalog);
  EXPECT_EQ(report(result.problems), "");
  ASSERT_EQ(result.resolved.notices.size(), 1U);
  EXPECT_EQ(value(result.resolved, "model.block.mlp.dispatcher.type"), "\"alltoall\"");
}

TEST(Resolve, SlotsWithoutEndAreAnError) {
  struct Endless {
    Component<Layer> inner{"endless"};
    static void describe(Schema<Endless>& s) { s.slot("inner", &Endless::inner, ""); }
  };
  testing::SampleCatalog catalog;
  catalog.add<Endless>("layer", "endless");
  const Config config = Config::parse(kBase, "a.toml", {"model.block.mlp.type=endless"});
  const std::string text = report(check(config, catalog).problems);
  EXPECT_NE(text.find("slots inside slots without end"), std::string::npos) << text;
}

TEST(Resolve, FromInACircleIsAnError) {
  struct Circle {
    i64 a = 1, b = 1;
    static void describe(Schema<Circle>& s) {
      s.field("a", &Circle::a, "").from("lr.b");
      s.field("b", &Circle::b, "").from("lr.a");
    }
  };
  testing::SampleCatalog catalog;
  catalog.add<Circle>("lr", "circle");
  const Config config = Config::parse(kBase, "a.toml", {"lr.type=circle"});
  EXPECT_EQ(report(check(config, catalog).problems),
            "[lr] a is taken from lr.b, which is taken from it");
}

}  // namespace resolve_test
}  // namespace tessera
