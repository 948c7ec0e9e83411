// `tessera data show --run`: which samples a step of a run reads, on any layout.
#include <gmock/gmock.h>

#include <algorithm>

#include "train_support.hpp"

namespace tessera::testing {
namespace data_show_test {

using ::testing::HasSubstr;

TEST(DataShow, TellsWhereTheSamplesOfAStepComeFrom) {
  const TinyRun run;
  ASSERT_EQ(run.train(TinyRun::steps(2, "run")).exit_code, 0);
  const auto shown = [&](const std::string& step) {
    return run_tessera({"data", "show", "--run", run.at("run"), "--step", step});
  };
  const ProcessResult second = shown("2");
  EXPECT_EQ(second.exit_code, 0) << second.err;
  EXPECT_EQ(std::ranges::count(second.out, '\n'), 8);
  EXPECT_TRUE(second.out.starts_with("sample 8  tokens ")) << second.out;
  EXPECT_THAT(second.out, HasSubstr("sample 15  tokens "));
  EXPECT_THAT(second.out, HasSubstr(" of the training text\n"));
  EXPECT_THAT(shown("3"), Exits(2, "--step 3: the run in "));
  EXPECT_EQ(shown("0").exit_code, 2);
  EXPECT_THAT(run_tessera({"data", "show"}), Exits(2, "PREFIX"));
  EXPECT_THAT(run_tessera({"data", "show", "--run", run.at("run")}), Exits(2, "--step"));
}

}  // namespace data_show_test
}  // namespace tessera::testing
