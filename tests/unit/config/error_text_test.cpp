// The wording of configuration errors: what users read, reviewed like code.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernel/config/source.hpp"
#include "tessera/io/json.hpp"
#include "tessera/io/written.hpp"
#include "tests/common/test_folder.hpp"
#include "tests/unit/config/config_support.hpp"

namespace tessera {
namespace error_text_test {

using testing::kLeast;
using testing::problems_of;
const std::string kBase(kLeast);

/// golden/NAME.toml resolves to the errors of golden/NAME.txt.
void expect_golden(const std::string& name,
                   const std::vector<std::string>& sets = {},
                   const std::vector<std::string>& failures = {}) {
  const auto read = [&](const char* suffix) {
    return testing::read_file(TESSERA_SOURCE_DIR "/tests/unit/config/golden/" + name + suffix);
  };
  testing::SampleCatalog catalog;
  catalog.failures = failures;
  const Config config = Config::parse(read(".toml"), "a.toml", sets);
  EXPECT_EQ(report(check(config, catalog).problems) + "\n", read(".txt"));
}

TEST(ErrorText, UnknownKeys) { expect_golden("unknown_keys"); }

TEST(ErrorText, Values) {
  expect_golden("values", {"data.splits=[1, -1]", "data.exclude=[1]", "model.vocab=\"many\""});
}

TEST(ErrorText, UnknownComponents) {
  expect_golden("unknown_component",
                {},
                {"deepep.so: needs libnvshmem.so.3, which was not found (ldd deepep.so)"});
}

TEST(ErrorText, DefaultsThatAreNotThere) {
  class Empty : public Catalog {
    const ComponentInfo* find(std::string_view, std::string_view) const override { return nullptr; }
    std::vector<const ComponentInfo*> of_kind(std::string_view) const override { return {}; }
    std::vector<std::string> load_failures() const override { return {}; }
    std::string library_of(std::string_view, std::string_view) const override { return ""; }
  } catalog;
  const Config config =
      Config::parse("[run]\nsteps = 1\n[batch]\nglobal = 1\nmicro = 1\nsequence_length = 1\n");
  const std::string text = report(check(config, catalog).problems);
  EXPECT_NE(text.find("[lr] type = \"constant\" (the default): no lr plugin of that name\n"
                      "  known lr schedules: none"),
            std::string::npos)
      << text;
  // Neither "auto" nor "none" needs a plugin.
  EXPECT_EQ(text.find("[comm]"), std::string::npos) << text;
  EXPECT_EQ(text.find("[graph]"), std::string::npos) << text;
}

TEST(ErrorText, WhatIsMissing) {
  EXPECT_EQ(problems_of("[batch]\nglobal = 1\nsequence_length = 1\n"),
            R"(a.toml:1:2: [batch] "micro" is missing: sequences of one microbatch; )"
            R"(expected integer in [1, 16777216]
    1 | [batch]
      |  ^^^^^
[run] "steps" is missing: optimizer steps of the whole run; expected integer in [1, 100000000000]
[data] "path" is missing: file or folder of texts; expected path)");
}

TEST(ErrorText, ValuesAndLinesAreCut) {
  const std::string word = "\x1b[31m" + std::string(3000, 'y');
  const std::string text = problems_of(kBase, {"run.steps=" + word});
  EXPECT_LT(text.size(), 700U) << text;
  EXPECT_THAT(text, ::testing::HasSubstr("got \"\\u001B[31myyyy"));
  EXPECT_THAT(text, ::testing::HasSubstr("run.steps=?[31myyyy"));
  const std::string row = "[checkpoint]\nkeep" + std::string(500, ' ') + "= -1";
  EXPECT_THAT(problems_of(kBase + row), ::testing::HasSubstr(" | ...   "));
}

TEST(ErrorText, NamesAreEscapedAndCut) {
  const std::string word = "a\\nb\\u001b[31m" + std::string(3000, 'y');
  for (const char* key : {"model.type", "device.type", "optimizer.type", "lr.type"}) {
    const std::string text = problems_of(kBase, {std::string(key) + "=\"" + word + "\""});
    EXPECT_LT(text.size(), 1500U) << text;
    EXPECT_THAT(text, ::testing::HasSubstr("type = \"a\\nb\\u001B[31myyyy"));
    EXPECT_EQ(text.find('\x1b'), std::string::npos);
  }
}

TEST(ErrorText, NoEscapeReachesATerminalAndALineIsNoPage) {
  const Error error("there is no file \x1b[31m" + std::string(5000, 'x') + "\x7f\nsecond\tline");
  const std::string text = error.what();
  EXPECT_THAT(text, ::testing::StartsWith("there is no file ?[31mxxx"));
  EXPECT_THAT(text, ::testing::EndsWith("xxx...\nsecond\tline"));
  EXPECT_LT(text.size(), 2100U);
}

// ESC and CSI, as one byte and as UTF-8; right-to-left override; a line separator.
TEST(ErrorText, NoOtherControlCharacterEither) {
  const Error error("a\x1b b\xc2\x9b c\x9b d\xe2\x80\xae e\xe2\x80\xa8 \xc3\xbc \xe2\x82\xac");
  EXPECT_STREQ(error.what(), "a? b? c? d? e? \xc3\xbc \xe2\x82\xac");
  // The later bytes of these would be control characters by themselves.
  const std::string whole = "tensor 2 \xc3\x97 data 2 \xe2\x80\xa6 \xf0\x9f\x98\x80";
  EXPECT_EQ(readable(whole, 100), whole);
  EXPECT_EQ(written_plain(whole, 100), whole);
  EXPECT_EQ(Value(whole).text(), '"' + whole + '"');
  EXPECT_EQ(Json(whole).text(), '"' + whole + '"');
  EXPECT_EQ(quote("\xc2\x9b[31m"), R"("\u009B[31m")");
  EXPECT_EQ(written_plain("\xc2\x9b\x9b\xe2\x80\xae/\xc3\xbc"), "\\u009B\\x9b\\u202E/\xc3\xbc");
  EXPECT_EQ(Json("\xc2\x9b\x1b\xe2\x80\xae\xc3\xbc").text(), "\"\\u009b\\u001b\\u202e\xc3\xbc\"");
  EXPECT_EQ(Value("\xc2\x85").text(), R"("\u0085")");
}

TEST(ErrorText, TablesInTablesWithoutEnd) {
  std::string path = "a";
  for (int i = 0; i < 20'000; ++i) path += ".a";
  testing::SampleCatalog catalog;
  for (const std::string& text : {"[" + path + "]",
                                  path + " = 1",
                                  "[a]\n\"b\"." + path + " = 1",
                                  "x = {" + path + " = 1}",
                                  "x = {y = \"=\", " + path + " = 1}"}) {
    EXPECT_THAT([&] { Config::parse(text, "a.toml"); },
                ::testing::ThrowsMessage<ConfigError>(
                    ::testing::HasSubstr(": tables are nested more than 256 deep")));
  }
  EXPECT_THROW(Config::parse("", "a.toml", {path + "=1"}), ConfigError);
  // What is no value is a text here.
  EXPECT_NO_THROW(Config::parse("", "a.toml", {"x={" + path + "=1}"}));
  EXPECT_NO_THROW(Config::parse("[run]\nname = \"" + std::string(300, '.') + "\"", "a.toml"));
}

TEST(ErrorText, TablesThatHideFromALookAtTheText) {
  std::string key = "a", dots = "a", tables = "1";
  for (int i = 0; i < 100'000; ++i) key += ".a";
  for (int i = 0; i < 255; ++i) dots += ".a";
  for (int i = 0; i < 250; ++i) tables = "{" + dots + " = " + tables + "}";
  // What looks like the end of a text within another kind of text.
  for (const std::string& text : {"x = [\"\"\"\n'\"\"\"', {" + key + " = 1}]",
                                  "x = '''\n\"'''\ny.\"#\"." + key + " = 1",
                                  "x = " + tables,
                                  "[" + key + "]\nx = nonsense",
                                  std::string(2 << 20, '\n')}) {
    EXPECT_THROW(Config::parse(text, "a.toml"), ConfigError);
  }
}

// Each part of a dotted key is a table: 1 MB of them would be 475,000 tables.
TEST(ErrorText, TablesWithoutNumber) {
  const auto keys = [](const std::string& name, int count) {
    std::string dots, text;
    for (int i = 0; i < 200; ++i) dots += ".a";
    for (int i = 0; i < count; ++i) text += fmt::format("{}{}{} = 1\n", name, i, dots);
    return text;
  };
  EXPECT_NO_THROW(Config::parse(keys("k", 90), "a.toml"));
  const auto refused = ::testing::ThrowsMessage<ConfigError>(::testing::HasSubstr(
      ": more than 20000 tables; put keys that belong together into one table"));
  EXPECT_THAT([&] { Config::parse(keys("k", 110), "a.toml"); }, refused);
  EXPECT_THAT([&] { Config::parse("x = ['''\n]''']\n" + keys("k", 2500), "a.toml"); }, refused);
  // Files that include each other have so many together.
  const testing::TestFolder folder;
  folder.write("b.toml", keys("b", 60));
  EXPECT_THAT(
      [&] { Config::load({folder.write("a.toml", "include = \"b.toml\"\n" + keys("k", 60))}); },
      ::testing::ThrowsMessage<ConfigError>(
          ::testing::HasSubstr("b.toml: with it, the files have more than 20000 tables")));
}

// The terminal would show them as it likes; columns are counted in characters.
TEST(ErrorText, BytesThatAreNoTextAreShownAsQuestionMarks) {
  EXPECT_EQ(
      excerpt(
          {"a = \xff\xc3\xbc\xe2\x82 \xc2\x9b!"},
          Origin{
              .kind = Origin::file, .layer = 0, .name = "a", .line = 1, .column = 6, .length = 1}),
      "\n    1 | a = ?\xc3\xbc?? ?!\n      |      ^");
  const Origin odd{.kind = Origin::file, .layer = 0, .name = "a\nb", .line = 1, .column = 2};
  EXPECT_EQ(odd.text(), "a\\nb:1:2");
}

TEST(ErrorText, OfManyUnknownKeysTheFirstAreExplained) {
  std::string text = kBase + "[lr]\n";
  for (int i = 0; i < 50'000; ++i) text += fmt::format("k{}=1\n", i);
  EXPECT_THAT(problems_of(text),
              ::testing::AllOf(::testing::HasSubstr("[lr] unknown key \"k0\""),
                               ::testing::EndsWith("\n... and 49980 more problems")));
}

TEST(ErrorText, SectionsThatAreValues) {
  EXPECT_EQ(problems_of(kBase, {"parallel=2", "model=gpt", "observers=console"}),
            "--set #1: parallel is a section: write [parallel] and one of its keys: tensor, "
            "pipeline, context, data, expert, expert_tensor, sequence_parallel, order, "
            "bucket_elements, gradient_dtype"
            R"(
      | parallel=2
      | ^^^^^^^^
--set #2: model is the table of a model: write [model] type = "gpt"
      | model=gpt
      | ^^^^^
--set #3: observers is a table of tables, not a value
      | observers=console
      | ^^^^^^^^^)");
}

TEST(ErrorText, KeysOfAComponentNotYetChosen) {
  EXPECT_EQ(problems_of(kBase + "[comm]\nport = 1\n"),
            "a.toml:13:1: [comm] unknown key \"port\"; communicator \"auto\" knows type, ranks, "
            "oversubscribe, staged, timeout_s, init_timeout_s, streams\n"
            "   13 | port = 1\n"
            "      | ^^^^");
}

TEST(ErrorText, KeysOfAnyComponentThatAutoMayChoose) {
  const std::string comm = kBase + "[comm]\nstreams = ";
  EXPECT_EQ(testing::resolved(comm + "2\n").tree->find("comm.streams")->value, Value(2));
  EXPECT_EQ(problems_of(comm + "0\n"),
            "a.toml:13:11: [comm] streams: expected integer >= 1, got 0\n"
            "   13 | streams = 0\n"
            "      |           ^");
  EXPECT_EQ(problems_of(comm + "2\ntype = \"threads\"\n"),
            "a.toml:13:1: [comm] unknown key \"streams\": \"sockets\" knows it, but type is "
            "\"threads\" here\n"
            "   13 | streams = 2\n"
            "      | ^^^^^^^");
  // An overlay that chooses drops what others would have taken.
  const Resolved chosen = testing::resolved(comm + "2\n", {"comm.type=threads"});
  EXPECT_THAT(chosen.notices,
              ::testing::ElementsAre("--set #1: [comm] is \"threads\" now: \"streams\" "
                                     "(a.toml:13:1) is dropped, only \"auto\" knows it"));
}

TEST(ErrorText, OnlyTwentyAreShown) {
  std::string text = kBase + "[check]\n";
  for (int i = 0; i < 23; ++i) text += fmt::format("wrong_key_{} = 1\n", i);
  const std::string shown = problems_of(text);
  EXPECT_NE(shown.find("wrong_key_19"), std::string::npos);
  EXPECT_EQ(shown.find("wrong_key_20"), std::string::npos);
  EXPECT_TRUE(shown.ends_with("\n... and 3 more problems")) << shown;
}

TEST(ErrorText, ResolveThrowsTheReport) {
  testing::SampleCatalog catalog;
  const Config config = Config::parse(kBase, "a.toml", {"lr.peak=0"});
  EXPECT_EQ(testing::error_of([&] { resolve(config, catalog); }),
            "--set #1: [lr] peak: expected float > 0, got 0\n"
            "      | lr.peak=0\n"
            "      |         ^");
  try {
    resolve(config, catalog);
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.exit_code(), 2);
  }
}

}  // namespace error_text_test
}  // namespace tessera
