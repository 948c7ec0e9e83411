#include "tessera/io/svg.hpp"

#include <gmock/gmock.h>

namespace tessera {
namespace svg_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(Svg, TextIsEscaped) {
  EXPECT_EQ(svg_text("a<b>&\"\x01\n\tä"), "a&lt;b&gt;&amp;&quot;\n\tä");
  // A model of bytes samples any of them.
  EXPECT_EQ(svg_text("\xff\u20ac\xe2\x82|\xc0\xaf|\xed\xa0\x80|\U0001F600\xf4"),
            "\uFFFD\u20ac\uFFFD\uFFFD|\uFFFD\uFFFD|\uFFFD\uFFFD\uFFFD|\U0001F600\uFFFD");
  EXPECT_THAT(svg_label(1, 2, "<x>"), HasSubstr(">&lt;x&gt;</text>"));
  EXPECT_THAT(svg_box(0, 0, 1, 1, "#fff", "<x>"), HasSubstr("<title>&lt;x&gt;</title>"));
}

TEST(Svg, TicksAreRoundNumbersWithinTheRange) {
  EXPECT_THAT(nice_ticks(0, 10, 5), ElementsAre(0, 2, 4, 6, 8, 10));
  EXPECT_THAT(nice_ticks(-0.3, 0.3, 3), ElementsAre(-0.2, 0, 0.2));
  EXPECT_THAT(nice_ticks(1, 1, 3), IsEmpty());
}

TEST(Svg, AnAxisHasTicksNumbersAndAName) {
  const std::string axis = svg_axis({0, 4, 100, 500}, 50, 4, "step", true);
  EXPECT_THAT(axis, HasSubstr("x=\"200.0\" y=\"71.0\" text-anchor=\"middle\">1</text>"));
  EXPECT_THAT(axis, HasSubstr(">step</text>"));
  EXPECT_THAT(svg_axis({0, 1, 0, 100}, 0, 5, "step", true), Not(HasSubstr(">0.2<")));
}

TEST(Svg, ALegendGoesOnInTheNextRow) {
  const std::vector<SvgKey> keys(5, {"#fff", "0123456789"});  // 104 pixels each
  EXPECT_EQ(svg_legend_rows(0, 210, keys), 3);
  EXPECT_THAT(svg_legend(0, 0, 210, keys), HasSubstr("y=\"40.0\" width=\"12.00\""));
  EXPECT_EQ(svg_legend_rows(0, 210, {}), 0);
}

}  // namespace svg_test
}  // namespace tessera
