#include "tessera/io/json.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace tessera {
namespace json_test {

TEST(Jsons, KeepTheOrderOfTheirKeys) {
  EXPECT_EQ(Json().add("step", i64{3}).add("loss", 2.5).add("a", true).text(),
            R"({"step":3,"loss":2.5,"a":true})");
}

TEST(Jsons, NumbersReadBackAsTheyWere) {
  const double third = 1.0 / 3;
  EXPECT_EQ(std::stod(Json(third).text()), third);
  EXPECT_EQ(std::stod(Json(1e-300 / 3).text()), 1e-300 / 3);
  EXPECT_EQ(Json(i64{9007199254740993}).text(), "9007199254740993");
  EXPECT_EQ(Json(std::numeric_limits<double>::infinity()).text(), "null");
}

TEST(Jsons, EscapeTexts) {
  EXPECT_EQ(Json("a \"b\" \\ \n").text(), R"("a \"b\" \\ \n")");
  EXPECT_EQ(Json("\xff").text(), "\"\xEF\xBF\xBD\"");  // no UTF-8
}

TEST(Jsons, Nest) {
  const std::vector<std::vector<i64>> groups = {{0, 1}, {}};
  const Json list =
      Json::array(groups, [](const std::vector<i64>& group) { return Json::array(group); });
  Json whole;
  whole.add("groups", list);
  const Json copy = whole;
  whole.add("groups", 1);
  EXPECT_EQ(copy.text(), R"({"groups":[[0,1],[]]})");
  EXPECT_EQ(whole.text(), R"({"groups":1})");
}

}  // namespace json_test
}  // namespace tessera
