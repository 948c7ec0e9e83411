#include "kernel/config/toml.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/unit/config/config_support.hpp"

namespace tessera {
namespace toml_test {

using testing::error_of;

Origin in_file(const std::string& name) {
  Origin out;
  out.kind = Origin::file;
  out.name = name;
  return out;
}

std::string listed(const std::string& text) {
  std::string out;
  for (const TomlItem& item : parse_toml(text, in_file("x.toml"))) {
    out += fmt::format("{}:{} {}", item.key.line, item.key.column, item.path);
    if (item.value) {
      out += fmt::format(
          " = {} @{}:{}+{}", item.value->text(), item.at.line, item.at.column, item.at.length);
    }
    out += '\n';
  }
  return out;
}

TEST(Toml, ItemsComeInOrderWithPositions) {
  EXPECT_EQ(listed(R"(z = 1
[b.c]
x = "grün"   # comment
  y = { u = [1, 2], v = {} }
[a]
d.e = true
)"),
            R"(1:1 z = 1 @1:5+1
2:2 b
2:4 b.c
3:1 b.c.x = "grün" @3:5+6
4:3 b.c.y
4:9 b.c.y.u = [1, 2] @4:13+6
4:21 b.c.y.v
5:2 a
6:1 a.d
6:3 a.d.e = true @6:7+4
)");
}

TEST(Toml, SyntaxErrorsHavePositionAndLine) {
  const std::string text = error_of([] { parse_toml("[run]\nsteps = = 3\n", in_file("x.toml")); });
  EXPECT_TRUE(text.starts_with("x.toml:2:9: ")) << text;
  EXPECT_NE(text.find("\n    2 | steps = = 3\n      |         ^"), std::string::npos) << text;
  const std::string twice = error_of([] { parse_toml("[a]\nx=1\nx=2\n", in_file("x.toml")); });
  EXPECT_TRUE(twice.starts_with("x.toml:3:")) << twice;
}

TEST(Toml, RejectsWhatConfigurationDoesNotUse) {
  EXPECT_EQ(error_of([] { parse_toml("a = 1979-05-27\n", in_file("x.toml")); }),
            "x.toml:1:5: dates and times are not used here; write a string\n"
            "    1 | a = 1979-05-27\n"
            "      |     ^^^^^^^^^^");
  EXPECT_EQ(error_of([] { parse_toml("a = [07:32:00]\n", in_file("x.toml")); }),
            "x.toml:1:6: dates and times are not used here; write a string\n"
            "    1 | a = [07:32:00]\n"
            "      |      ^^^^^^^^");
  EXPECT_NE(error_of([] {
              parse_toml("[[a]]\nx = 1\n", in_file("x.toml"));
            }).find("arrays of tables are not used here"),
            std::string::npos);
  EXPECT_EQ(error_of([] { parse_toml("[a.\"b.c\"]\n", in_file("x.toml")); }),
            "x.toml:1:4: keys are made of letters, digits, \"_\" and \"-\"\n"
            "    1 | [a.\"b.c\"]\n"
            "      |    ^^^^^");
}

TEST(Toml, OneValue) {
  const auto one = [](const std::string& text) -> std::string {
    const auto items = parse_toml_value(text, Origin());
    if (!items) return "no value";
    std::string out;
    for (const TomlItem& item : *items) {
      out += item.path + (item.value ? "=" + item.value->text() : "{}") + ";";
    }
    return out;
  };
  EXPECT_EQ(one("3"), "=3;");
  EXPECT_EQ(one(" [1, 2]"), "=[1, 2];");
  EXPECT_EQ(one("\"x\""), "=\"x\";");
  EXPECT_EQ(one("{ type = \"a\", b.c = 1 }"), "{};type=\"a\";b{};b.c=1;");
  EXPECT_EQ(one("word"), "no value");
  EXPECT_EQ(one(""), "no value");
  EXPECT_EQ(one("2024-01-01"), "no value");
  EXPECT_EQ(one("1\nb = 2"), "no value");
}

}  // namespace toml_test
}  // namespace tessera
