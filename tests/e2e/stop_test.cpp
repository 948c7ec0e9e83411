// How runs end: at signals that reach several of their processes, and under unusual parents.
#include <gmock/gmock.h>

#include <csignal>

#include "tessera/types.hpp"
#include "train_support.hpp"

namespace tessera::testing {
namespace stop_test {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class Stop : public ::testing::Test {
 protected:
  void TearDown() override { EXPECT_THAT(run_.survivors(), IsEmpty()); }
  const TinyRun run_;
};

// `pkill -INT tessera` reaches ranks and launcher.
TEST_F(Stop, StopsInGoodOrderWhenRanksAreInterruptedToo) {
  Process run(run_.command(TinyRun::steps(1000000, "run", {"parallel.data=2"})), run_.options());
  ASSERT_TRUE(run.shows("3/1")) << run.err();
  for (const i64 rank : {0, 1}) kill(rank_process(run_.mark(), rank), SIGINT);
  run.send(SIGINT);
  EXPECT_EQ(run.wait().exit_code, 3) << run.err();
  EXPECT_THAT(run_.checkpoints("run"), SizeIs(1));
}

// A job that was told to stop may have seconds to save: a validation may take minutes.
TEST_F(Stop, DoesNotValidateWhenItIsStopped) {
  Process run(run_.command(TinyRun::steps(1000000, "run", {"validation.every_steps=1000000"})),
              run_.options());
  ASSERT_TRUE(run.shows("3/1")) << run.err();
  run.send(SIGTERM);
  EXPECT_EQ(run.wait().exit_code, 3) << run.err();
  EXPECT_THAT(run.out(), Not(HasSubstr("validation loss")));
  EXPECT_THAT(run_.checkpoints("run"), SizeIs(1));
}

// Some daemons ignore the ends of their children, and so would all that they start.
TEST_F(Stop, EndsWhereItsParentIgnoresTheEndsOfChildren) {
  const auto sets = TinyRun::steps(2, "run", {"parallel.data=2"});
  const ProcessResult result =
      run_process(run_.command_after("trap '' CHLD", sets), run_.options());
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

}  // namespace stop_test
}  // namespace tessera::testing
