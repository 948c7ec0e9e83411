#include "tessera/base/value.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "kernel/config/config.hpp"
#include "tests/unit/config/config_support.hpp"

namespace tessera {
namespace value_test {

Value read_back(const Value& value) {
  const Config config = Config::parse("[t]\nx = " + value.text() + "\n");
  return *config.tree().find("t.x")->value;
}

TEST(Value, TextIsToml) {
  EXPECT_EQ(Value(true).text(), "true");
  EXPECT_EQ(Value(-3).text(), "-3");
  EXPECT_EQ(Value(1.0).text(), "1.0");
  EXPECT_EQ(Value(1e-3).text(), "0.001");
  EXPECT_EQ(Value(3e-5).text(), "3e-05");
  EXPECT_EQ(Value("adamw").text(), "\"adamw\"");
  EXPECT_EQ(Value("a\"b\\c\n\t\x01").text(), R"("a\"b\\c\n\t\u0001")");
  EXPECT_EQ(Value(Value::Array{1, 2.5, "x", Value::Array{}}).text(), "[1, 2.5, \"x\", []]");
}

TEST(Value, TextReadsBackAsTheSameValue) {
  const double tiny = std::numeric_limits<double>::denorm_min();
  const double infinite = std::numeric_limits<double>::infinity();
  const Value values[] = {false,
                          i64{0},
                          std::numeric_limits<i64>::min(),
                          std::numeric_limits<i64>::max(),
                          0.1 + 0.2,
                          -0.0,
                          1e16,
                          1e300,
                          tiny,
                          -infinite,
                          "",
                          "grün \x7f \r\n \"quoted\" \\ \b",
                          Value::Array{Value::Array{1, 2}, Value::Array{3}},
                          Value::Array{"a", "b, c"}};
  for (const Value& value : values) EXPECT_EQ(read_back(value), value) << value.text();
}

TEST(Value, TypeNames) {
  EXPECT_EQ(Value(false).type_name(), "boolean");
  EXPECT_EQ(Value(1).type_name(), "integer");
  EXPECT_EQ(Value(1.5).type_name(), "float");
  EXPECT_EQ(Value("").type_name(), "string");
  EXPECT_EQ(Value(Value::Array{}).type_name(), "array");
}

TEST(Value, ArrayOfRefusesOthers) {
  EXPECT_EQ(detail::array_of(Value::Array{1}).size(), 1U);
  EXPECT_EQ(testing::error_of([] { detail::array_of(Value(3)); }), "expected an array, got 3");
}

TEST(Errors, CarryTheirExitCode) {
  EXPECT_EQ(Error("x").exit_code(), 1);
  EXPECT_EQ(ConfigError("x").exit_code(), 2);
  EXPECT_STREQ(ConfigError("text").what(), "text");
  EXPECT_THROW(fail_config("{}", 1), ConfigError);
  EXPECT_THROW(fail("{}", 1), Error);
  EXPECT_NO_THROW(require(true, "never"));
}

}  // namespace value_test
}  // namespace tessera
