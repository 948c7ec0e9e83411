#include "kernel/config/config.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "tests/common/environment.hpp"
#include "tests/common/test_folder.hpp"
#include "tests/unit/config/config_support.hpp"

namespace tessera {
namespace config_test {

namespace fs = std::filesystem;
using testing::error_of;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// Files in a folder of the test's own.
class ConfigFiles : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) const {
    return folder_.write(name, text);
  }
  static std::string text(const Config& config, std::string_view path) {
    const Entry* entry = config.tree().find(path);
    if (entry == nullptr) return "nothing";
    return entry->value ? entry->value->text() : "table";
  }
  static std::string origin(const Config& config, std::string_view path) {
    return config.tree().find(path)->at.text();
  }
  const testing::TestFolder folder_;
  const fs::path root_ = folder_.path();
};

TEST_F(ConfigFiles, LaterFilesWinTablesMergeArraysReplace) {
  const std::string a = write("a.toml", "schema = 1\n[m]\nx = 1\nlist = [1, 2]\n[m.s]\nk = 1\n");
  const std::string b = write("b.toml", "[m]\nlist = [3]\n[m.s]\nl = 2\n");
  const Config config = Config::load({a, b}, {"m.x=7", "m.s.l=4"});
  EXPECT_EQ(text(config, "m.x"), "7");
  EXPECT_EQ(text(config, "m.list"), "[3]");
  EXPECT_EQ(text(config, "m.s.k"), "1");
  EXPECT_EQ(text(config, "m.s.l"), "4");
  EXPECT_EQ(text(config, "schema"), "nothing");
  EXPECT_EQ(origin(config, "m.x"), "--set #1");
  EXPECT_EQ(origin(config, "m.list"), b + ":2:8");
  EXPECT_EQ(origin(config, "m.s.k"), a + ":6:5");
}

TEST_F(ConfigFiles, IncludesComeFirstDepthFirst) {
  write("lib/deep.toml", "[m]\nx = 1\ny = 1\nz = 1\n");
  write("lib/middle.toml", "include = [\"deep.toml\"]\n[m]\ny = 2\nz = 2\n");
  const std::string top = write("top.toml", "include = [\"lib/middle.toml\"]\n[m]\nz = 3\n");
  const Config config = Config::load({top});
  EXPECT_EQ(text(config, "m.x"), "1");
  EXPECT_EQ(text(config, "m.y"), "2");
  EXPECT_EQ(text(config, "m.z"), "3");
  EXPECT_EQ(text(config, "include"), "nothing");
  EXPECT_EQ(origin(config, "m.x"), (root_ / "lib/deep.toml").string() + ":2:5");
}

TEST_F(ConfigFiles, OneIncludeNeedsNoArray) {
  write("a.toml", "m.x = 1\n");
  const std::string top = write("top.toml", "include = \"a.toml\"\nm.y = 2\n");
  EXPECT_EQ(text(Config::load({top}), "m.x"), "1");
}

TEST_F(ConfigFiles, BadIncludes) {
  const std::string self = write("self.toml", "include = [\"other.toml\"]\n");
  write("other.toml", "include = [\"./self.toml\"]\n");
  const std::string other = (root_ / "other.toml").string();
  EXPECT_EQ(error_of([&] { Config::load({self}); }),
            other + ":1:11: include: " + self + " includes itself");
  const std::string lost = write("lost.toml", "include = [\"gone.toml\"]\n");
  EXPECT_EQ(error_of([&] { Config::load({lost}); }),
            lost + ":1:11: include: cannot read " + (root_ / "gone.toml").string() +
                ": there is no such file");
  const std::string wrong = write("wrong.toml", "include = 3\n");
  EXPECT_EQ(error_of([&] { Config::load({wrong}); }),
            wrong +
                ":1:11: include takes files: [\"model.toml\"]\n"
                "    1 | include = 3\n"
                "      |           ^");
  EXPECT_EQ(error_of([&] { Config::load({root_.string()}); }),
            "cannot read " + root_.string() + ": it is a folder");
  EXPECT_EQ(error_of([&] { Config::load({"/dev/zero"}); }),
            "cannot read /dev/zero: it has more than 1 MiB");
}

TEST_F(ConfigFiles, IncludesEnd) {
  for (int i = 0; i < 20; ++i) {
    write(fmt::format("chain-{}.toml", i), fmt::format("include = [\"chain-{}.toml\"]\n", i + 1));
    write(fmt::format("double-{}.toml", i),
          fmt::format("include = [\"double-{0}.toml\", \"double-{0}.toml\"]\n", i + 1));
  }
  write("chain-20.toml", "");
  write("double-14.toml", "");
  const std::string waits = write("waits.toml", "include = [\"pipe.toml\"]\n");
  ASSERT_EQ(mkfifo((root_ / "pipe.toml").c_str(), 0600), 0);
  const auto error_with = [&](const char* name) {
    return error_of([&] { Config::load({(root_ / name).string()}); });
  };
  EXPECT_THAT(error_with("chain-0.toml"),
              HasSubstr("chain-15.toml:1:11: include: files include each other more than 16 deep"));
  EXPECT_THAT(error_with("double-0.toml"),
              HasSubstr(": include: more than 1000 files are included"));
  EXPECT_THAT(error_with("waits.toml"), HasSubstr("pipe.toml: it is not a regular file"));
}

TEST_F(ConfigFiles, ValuesAndTablesReplaceEachOther) {
  const std::string a = write("a.toml", "[m.s]\nk = 1\n");
  const std::string b = write("b.toml", "[m]\ns = 2\n");
  EXPECT_EQ(text(Config::load({a, b}), "m.s"), "2");
  EXPECT_EQ(text(Config::load({a, b}), "m.s.k"), "nothing");
  EXPECT_EQ(text(Config::load({b, a}), "m.s"), "table");
  EXPECT_EQ(text(Config::load({b, a}), "m.s.k"), "1");
}

TEST_F(ConfigFiles, SettingsAreTomlOrBareText) {
  const Config config = Config::parse("",
                                      "x",
                                      {"a.int=3",
                                       "a.word=gelu",
                                       "a.text=\"3\"",
                                       "a.list=[1,2]",
                                       "a.empty=",
                                       "a.eq=x=y",
                                       "a.date=2024-01-01",
                                       "b={type=\"t\", c={d=1}}"});
  EXPECT_EQ(text(config, "a.int"), "3");
  EXPECT_EQ(text(config, "a.word"), "\"gelu\"");
  EXPECT_EQ(text(config, "a.text"), "\"3\"");
  EXPECT_EQ(text(config, "a.list"), "[1, 2]");
  EXPECT_EQ(text(config, "a.empty"), "\"\"");
  EXPECT_EQ(text(config, "a.eq"), "\"x=y\"");
  EXPECT_EQ(text(config, "a.date"), "\"2024-01-01\"");
  EXPECT_EQ(text(config, "b.type"), "\"t\"");
  EXPECT_EQ(text(config, "b.c.d"), "1");
  EXPECT_EQ(origin(config, "b.c.d"), "--set #8");
}

TEST_F(ConfigFiles, BadSettings) {
  for (const char* set : {"a.b", "=3", "a..b=1", ".a=1", "a.=1", "a b=1", "include=[]"}) {
    EXPECT_EQ(error_of([&] {
                Config::parse("", "x", {"a=1", set});
              }),
              "--set #2 \"" + std::string(set) + "\": write it as table.key=value");
  }
}

TEST_F(ConfigFiles, BadSettingsAreShownOnALine) {
  const std::string much(100'000, 'a');
  const std::vector<std::pair<std::string, std::string>> shown = {
      {"a b\nc=1", "\"a b\\nc=1\""},
      {"a \x1b=1", "\"a \\u001B=1\""},
      {much, "\"" + much.substr(0, 80) + "\"..."}};
  for (const auto& [set, text] : shown) {
    EXPECT_EQ(error_of([&set = set] { Config::parse("", "x", {set}); }),
              "--set #1 " + text + ": write it as table.key=value");
  }
}

TEST_F(ConfigFiles, SchemaVersionIsChecked) {
  EXPECT_NO_THROW(Config::parse("schema = 1\n"));
  EXPECT_EQ(error_of([] { Config::parse("schema = 2\n", "a.toml"); }),
            "a.toml:1:10: this program reads configurations of schema = 1\n"
            "    1 | schema = 2\n"
            "      |          ^");
}

TEST_F(ConfigFiles, PathsAreRelativeToTheFileThatWroteThem) {
  write("lib/base.toml", "[data]\npath = \"../corpus\"\nother = \"/abs/x\"\n");
  const std::string top = write("top.toml", "include = [\"lib/base.toml\"]\n[run]\nout = \"o\"\n");
  const Config config = Config::load({top}, {"set.path=here"});
  EXPECT_EQ(config.resolve_path("data.path"), root_ / "corpus");
  EXPECT_EQ(config.resolve_path("data.other"), "/abs/x");
  EXPECT_EQ(config.resolve_path("run.out"), root_ / "o");
  EXPECT_EQ(config.resolve_path("set.path"), fs::current_path() / "here");
  EXPECT_EQ(config.resolve_path("x", Origin()), fs::current_path() / "x");
  EXPECT_EQ(error_of([&] { (void)config.resolve_path("no.key"); }), "\"no.key\" is not set");
}

TEST_F(ConfigFiles, TheHomeFolderIsReadInEveryPath) {
  const testing::EnvironmentVariable home("HOME", root_.string());
  write("lib/base.toml", "data.path = \"~/corpus\"\nplugins.path = [\"~\"]\n");
  const std::string top = write("a.toml", "include = [\"~/lib/base.toml\"]\nrun.out = \"./~x\"\n");
  const Config config = Config::load({top}, {"set.path=~/b/../c"});
  EXPECT_EQ(config.resolve_path("data.path"), root_ / "corpus");
  EXPECT_EQ(config.resolve_path("set.path"), root_ / "c");
  EXPECT_EQ(config.resolve_path("run.out"), root_ / "~x");
  EXPECT_EQ(config.plugin_path(), std::vector<fs::path>{root_});
}

TEST_F(ConfigFiles, AnotherUsersHomeIsRefused) {
  const std::string why =
      "\"~ann/x\": only \"~/\" is read as a home folder, that of HOME; write another user's in "
      "full, and \"./~name\" for a name that begins so";
  const auto of = [](const std::string& text) {
    return error_of([&] {
      const Config config = Config::parse(text, "a.toml");
      (void)config.plugin_path();
      (void)config.resolve_path("data.path");
    });
  };
  EXPECT_EQ(of("data.path = \"~ann/x\""),
            "a.toml:1:13: data.path: " + why +
                "\n    1 | data.path = \"~ann/x\"\n      |             ^^^^^^^^");
  EXPECT_EQ(of("plugins.path = \"~ann/x\""),
            "a.toml:1:16: [plugins] path: " + why +
                "\n    1 | plugins.path = \"~ann/x\"\n      |                ^^^^^^^^");
  EXPECT_EQ(of("include = [\"~ann/x\"]"),
            "a.toml:1:11: include: " + why +
                "\n    1 | include = [\"~ann/x\"]\n      |           ^^^^^^^^^^");
  const testing::EnvironmentVariable home("HOME", std::nullopt);
  EXPECT_EQ(of("data.path = \"~\""),
            "a.toml:1:13: data.path: \"~\": the environment variable HOME names no folder; write "
            "the path in full\n    1 | data.path = \"~\"\n      |             ^^^");
}

TEST_F(ConfigFiles, PluginPathIsKnownBeforeSchemas) {
  const std::string a = write("c/a.toml", "[plugins]\npath = [\"../p\", \"/q\"]\n");
  EXPECT_EQ(Config::load({a}).plugin_path(), (std::vector<fs::path>{root_ / "p", "/q"}));
  EXPECT_EQ(Config::parse("plugins.path = \"/p\"").plugin_path(), std::vector<fs::path>{"/p"});
  EXPECT_TRUE(Config::parse("").plugin_path().empty());
  EXPECT_EQ(error_of([] { (void)Config::parse("plugins.path = [1]", "a.toml").plugin_path(); }),
            "a.toml:1:16: [plugins] path: expected an array of folders, [\"build/plugins\"]\n"
            "    1 | plugins.path = [1]\n"
            "      |                ^^^");
}

TEST_F(ConfigFiles, TypesKeepsEveryWriting) {
  const std::string a = write("a.toml", "[o]\ntype = \"x\"\n");
  const std::string b = write("b.toml", "[o]\nk = 1\n");
  const Config config = Config::load({a, b}, {"o.type=y"});
  const std::vector<TypeChange> changes = config.types("o");
  ASSERT_EQ(changes.size(), 2U);
  EXPECT_EQ(changes[0].layer, 0);
  EXPECT_EQ(changes[1].layer, 2);
  EXPECT_EQ(changes[1].value, Value("y"));
}

TEST_F(ConfigFiles, NodesReadWhatIsWritten) {
  const Config config = Config::parse("[a]\nz.k = 1\ny.k = 2\nv = 3\n[b]\nw = 4\n", "f.toml");
  const auto node = config.node("a");
  EXPECT_EQ(node->path(), "a");
  EXPECT_EQ(*node->find("v"), Value(3));
  EXPECT_EQ(*node->find("z.k"), Value(1));
  EXPECT_EQ(node->find("z"), nullptr);
  EXPECT_EQ(node->find("w"), nullptr);
  EXPECT_EQ(*node->absolute("b.w"), Value(4));
  EXPECT_EQ(node->tables(""), (std::vector<std::string>{"z", "y"}));
  EXPECT_EQ(*node->child("y")->find("k"), Value(2));
  EXPECT_EQ(node->child("y")->path(), "a.y");
  EXPECT_EQ(node->origin("v"), "f.toml:4:5");
  EXPECT_EQ(node->origin("none"), "default");
  EXPECT_EQ(config.node("")->tables(""), (std::vector<std::string>{"a", "b"}));
}

TEST(ConfigTree, NamesThatShareAPrefixStayApart) {
  ConfigTree tree;
  for (const char* path : {"a.x", "a-b.x", "a.y", "ab.x"}) {
    Entry entry;
    entry.value = Value(1);
    tree.put(path, entry);
  }
  EXPECT_EQ(tree.children("a"), (std::vector<std::string>{"x", "y"}));
  tree.erase("a");
  EXPECT_EQ(tree.find("a.x"), nullptr);
  EXPECT_NE(tree.find("a-b.x"), nullptr);
  EXPECT_NE(tree.find("ab.x"), nullptr);
  EXPECT_EQ(tree.children(""), (std::vector<std::string>{"a-b", "ab"}));
}

// A text in a checkpoint may be somebody else's.
TEST(Config, AStoredTextOpensNothing) {
  const std::string text = "plugins.path = [\"/theirs\"]\nrun.steps = 3\n";
  const Config theirs = Config::stored(text, "index.json");
  EXPECT_EQ(theirs.plugin_path(), std::vector<fs::path>{});
  EXPECT_EQ(theirs.stored_plugin_path(), std::vector<fs::path>{"/theirs"});
  EXPECT_EQ(theirs.tree().find("run.steps")->value, Value(3));
  const Config with_ours = Config::stored(text, "index.json", {"plugins.path=[\"/ours\"]"});
  EXPECT_EQ(with_ours.plugin_path(), std::vector<fs::path>{"/ours"});
  EXPECT_EQ(with_ours.stored_plugin_path(), std::vector<fs::path>{});
  const Config written = Config::parse(text, "a.toml");
  EXPECT_EQ(written.plugin_path(), std::vector<fs::path>{"/theirs"});
  EXPECT_EQ(written.stored_plugin_path(), std::vector<fs::path>{});
  for (const char* includes : {"include = [\"/dev/zero\"]", "include = \"/dev/zero\""}) {
    EXPECT_THAT(error_of([&] { (void)Config::stored(includes, "index.json"); }),
                StartsWith("index.json:1:11: a stored configuration includes no files"));
  }
}

}  // namespace config_test
}  // namespace tessera
