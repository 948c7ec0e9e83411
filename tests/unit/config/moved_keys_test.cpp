// Keys that have moved: files, checkpoints and --set of earlier versions still name the old places.
#include "kernel/config/moved_keys.hpp"

#include <gmock/gmock.h>

#include "kernel/config/dump.hpp"
#include "tessera/error.hpp"
#include "tests/common/test_folder.hpp"
#include "tests/unit/config/config_support.hpp"

namespace tessera {
namespace moved_keys_test {

using ::testing::ElementsAre;
using testing::problems_of;
using testing::resolved;

/// The same as kLeast, as the files of earlier versions have it.
const std::string kOld = R"(schema = 1
[run]
steps = 10
[batch]
global = 8
micro = 2
[model]
sequence_length = 16
hidden = 64
[data]
path = "corpus"
)";
const std::string kNoLength =
    "[run]\nsteps = 1\n[batch]\nglobal = 8\nmicro = 2\n[data]\npath = \"c\"\n";

/// A tokenizer with a key, for tables.
testing::SampleCatalog catalog_with_bpe() {
  struct Bpe {
    std::string path;
    static void describe(Schema<Bpe>& s) {
      s.field("path", &Bpe::path, "file of merges").is_path().required();
    }
  };
  testing::SampleCatalog catalog;
  catalog.add<Bpe>("tokenizer", "bpe");
  return catalog;
}

TEST(ConfigMovedKeys, NamesTheNewPlace) {
  EXPECT_EQ(moved_key("model.sequence_length"), "batch.sequence_length");
  EXPECT_EQ(moved_key("data.tokenizer"), "tokenizer");
  EXPECT_EQ(moved_key("data.tokenizer.type"), "tokenizer.type");
  EXPECT_EQ(moved_key("model.embedding.sequence_length"), "model.embedding.positions");
  for (const char* stays : {"batch.sequence_length",
                            "tokenizer.type",
                            "data.tokenizers",
                            "data",
                            "model.sequence_length_2",
                            "x.model.sequence_length"}) {
    EXPECT_EQ(moved_key(stays), std::nullopt) << stays;
  }
}

TEST(ConfigMovedKeys, AFileWithTheOldKeyMeansTheSameAndSaysSo) {
  const Resolved old = resolved(kOld);
  EXPECT_EQ(old.run.batch.sequence_length, 16);
  EXPECT_THAT(diff(old, resolved(std::string(testing::kLeast))), ElementsAre());
  EXPECT_THAT(old.notices,
              ElementsAre("a.toml:8:1: model.sequence_length is batch.sequence_length now"));
  EXPECT_TRUE(resolved(std::string(testing::kLeast)).notices.empty());
}

TEST(ConfigMovedKeys, ADumpHasTheNewKey) {
  const Resolved again = resolved(dump(resolved(kOld)));
  EXPECT_EQ(again.run.batch.sequence_length, 16);
  EXPECT_TRUE(again.notices.empty());
}

TEST(ConfigMovedKeys, TheLaterLayerWinsWhicheverNameItUses) {
  const std::string least(testing::kLeast);
  const Resolved old_last = resolved(least, {"model.sequence_length=32"});
  EXPECT_EQ(old_last.run.batch.sequence_length, 32);
  EXPECT_THAT(old_last.notices,
              ElementsAre("--set #1: model.sequence_length is batch.sequence_length now"));
  EXPECT_EQ(resolved(kOld, {"batch.sequence_length=32"}).run.batch.sequence_length, 32);
  const std::vector<std::string> sets = {"batch.sequence_length=32", "model.sequence_length=64"};
  EXPECT_EQ(resolved(least, sets).run.batch.sequence_length, 64);
  EXPECT_EQ(resolved(least, {sets[1], sets[0]}).run.batch.sequence_length, 32);
}

TEST(ConfigMovedKeys, TheLaterFileWinsWhicheverNameItUses) {
  const testing::TestFolder folder;
  const std::string base = folder.write("base.toml", kNoLength);
  const std::string before = folder.write("before.toml", "[model]\nsequence_length = 8\n");
  const std::string now = folder.write("now.toml", "[batch]\nsequence_length = 4\n");
  testing::SampleCatalog catalog;
  const auto length = [&](const std::vector<std::string>& files) {
    return resolve(Config::load(files), catalog).run.batch.sequence_length;
  };
  EXPECT_EQ(length({base, before, now}), 4);
  EXPECT_EQ(length({base, now, before}), 8);
  const Resolved overlaid = resolve(Config::load({base, now, before}), catalog);
  EXPECT_THAT(overlaid.notices,
              ElementsAre(before + ":2:1: model.sequence_length is batch.sequence_length now"));
}

TEST(ConfigMovedKeys, ATableMovesWithAllItsKeys) {
  const testing::SampleCatalog catalog = catalog_with_bpe();
  const std::string least(testing::kLeast);
  for (const auto& config :
       {Config::parse(least + "[data.tokenizer]\ntype = \"bpe\"\npath = \"/m\"\n", "a.toml"),
        Config::parse(least + "tokenizer = {type = \"bpe\", path = \"/m\"}\n", "a.toml"),
        Config::parse(least, "a.toml", {"data.tokenizer={type=\"bpe\", path=\"/m\"}"}),
        Config::parse(least, "a.toml", {"data.tokenizer.type=bpe", "tokenizer.path=/m"})}) {
    const CheckResult result = check(config, catalog);
    EXPECT_EQ(report(result.problems), "");
    EXPECT_EQ(result.resolved.run.tokenizer.type, "bpe");
    EXPECT_EQ(result.resolved.run.tokenizer.path, "tokenizer");
    EXPECT_EQ(result.resolved.tree->find("tokenizer.path")->value, Value("/m"));
    EXPECT_EQ(result.resolved.tree->find("data.tokenizer"), nullptr);
  }
  const Config table =
      Config::parse(least + "[data.tokenizer]\ntype = \"bpe\"\npath = \"/m\"\n", "a.toml");
  EXPECT_THAT(table.notices(),
              ElementsAre("a.toml:13:1: data.tokenizer.type is tokenizer.type now",
                          "a.toml:14:1: data.tokenizer.path is tokenizer.path now"));
}

TEST(ConfigMovedKeys, AnOverlayThatChangesTheTypeDropsKeysOfTheOldPlace) {
  const testing::SampleCatalog catalog = catalog_with_bpe();
  const Config config = Config::parse(
      std::string(testing::kLeast) + "[data.tokenizer]\ntype = \"bpe\"\npath = \"/m\"\n",
      "a.toml",
      {"tokenizer.type=byte"});
  const CheckResult result = check(config, catalog);
  EXPECT_EQ(report(result.problems), "");
  EXPECT_THAT(result.resolved.notices,
              ::testing::Contains("--set #1: [tokenizer] is \"byte\" now: \"path\" "
                                  "(a.toml:14:1) is dropped, only \"bpe\" knows it"));
}

TEST(ConfigMovedKeys, ErrorsPointAtWhereTheKeyIsWritten) {
  std::string wrong = kOld;
  wrong.replace(wrong.find("16"), 2, "0 ");
  EXPECT_EQ(problems_of(wrong),
            "a.toml:8:19: [batch] sequence_length: expected integer in [1, 16777216], got 0\n"
            "    8 | sequence_length = 0 \n"
            "      |                   ^");
  EXPECT_EQ(problems_of(kOld, {"model.sequence_length=many"}),
            "--set #1: [batch] sequence_length: expected integer in [1, 16777216], got \"many\"\n"
            "      | model.sequence_length=many\n"
            "      |                       ^^^^");
  EXPECT_EQ(problems_of(kOld + "tokenizer.size = 3\n"),
            "a.toml:12:11: [tokenizer] unknown key \"size\"; tokenizer \"byte\" "
            "(tokenizer.so 0.1.0) knows type\n"
            "   12 | tokenizer.size = 3\n"
            "      |           ^^^^");
  EXPECT_EQ(problems_of(kOld + "tokenizer = \"byte\"\n"),
            "a.toml:12:1: tokenizer is the table of a tokenizer: write [tokenizer] type = "
            "\"byte\"\n"
            "   12 | tokenizer = \"byte\"\n"
            "      | ^^^^^^^^^");
}

TEST(ConfigMovedKeys, OneFileHasAKeyAtOnePlaceOnly) {
  const auto error_of = [](const std::string& text) -> std::string {
    try {
      Config::parse(text, "a.toml");
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(error_of("[batch]\nsequence_length = 8\n[model]\nsequence_length = 16\n"),
            "a.toml:4:1: model.sequence_length and batch.sequence_length (a.toml:2:1) are the "
            "same; write batch.sequence_length only\n"
            "    4 | sequence_length = 16\n"
            "      | ^^^^^^^^^^^^^^^");
  EXPECT_EQ(error_of("[model]\nsequence_length = 8\n[batch]\nsequence_length = 8\n").substr(0, 75),
            "a.toml:4:1: batch.sequence_length and model.sequence_length (a.toml:2:1) ar");
  // A table counts, whatever is in it.
  EXPECT_EQ(error_of("[data.tokenizer]\ntype = \"bpe\"\n[tokenizer]\npath = \"/m\"\n"),
            "a.toml:3:2: tokenizer and data.tokenizer (a.toml:1:7) are the same; write tokenizer "
            "only\n"
            "    3 | [tokenizer]\n"
            "      |  ^^^^^^^^^");
  EXPECT_EQ(error_of("[model]\nsequence_length = 8\n[batch]\nglobal = 8\n"), "");
}

TEST(ConfigMovedKeys, WhatIsMissingIsNamedByItsNewPlace) {
  EXPECT_EQ(problems_of(kNoLength),
            "a.toml:3:2: [batch] \"sequence_length\" is missing: positions of a sequence; "
            "expected integer in [1, 16777216]\n"
            "    3 | [batch]\n"
            "      |  ^^^^^");
}

}  // namespace moved_keys_test
}  // namespace tessera
