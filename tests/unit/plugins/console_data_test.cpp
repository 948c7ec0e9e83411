// What the console says of a run's data.
#include <gmock/gmock.h>

#include "tessera/observer.hpp"
#include "tests/unit/plugins/plugins_support.hpp"

namespace tessera {
namespace console_data_test {

using ::testing::HasSubstr;
using ::testing::Not;

std::string printed(const RunData& training, const RunData& validation) {
  RunStart start;
  start.training = training;
  start.validation = validation;
  ObserverArguments arguments;
  const auto console = make_plugin<Observer>("console", "", arguments);
  ::testing::internal::CaptureStdout();
  console->on(start);
  return ::testing::internal::GetCapturedStdout();
}

TEST(ConsoleData, SaysWhatTrainsAndValidates) {
  EXPECT_THAT(printed({6860, "paragraphs", 1060120, 1.2345}, {362, "paragraphs", 55274, 1}),
              HasSubstr("\n  training    1,060,120 tokens in 6,860 paragraphs, 1.23 epochs"
                        "\n  validation  55,274 tokens in 362 paragraphs, 1 epoch each time\n"));
}

TEST(ConsoleData, SaysWhatIsHeldBackInVain) {
  EXPECT_THAT(printed({0, "", 64, 2}, {1, "files", 32, 0}),
              HasSubstr("\n  training    64 tokens, 2 epochs"
                        "\n  validation  32 tokens in 1 file, not used: validation.every_steps = "
                        "0\n"));
  EXPECT_THAT(printed({0, "", 64, 2}, {}), Not(HasSubstr("validation")));
}

}  // namespace console_data_test
}  // namespace tessera
