// Ranks that meet in a group must plan the same; a schedule that is no pure function shows at once.
#include <gmock/gmock.h>

#include <atomic>
#include <utility>

#include "tessera/error.hpp"
#include "tessera/plugin.hpp"
#include "tessera/schedule.hpp"
#include "training_support.hpp"

namespace tessera::testing {
namespace agree_plans_test {

// On every other thread that asks, the second microbatch comes first; a rank is a thread.
class Fickle final : public PipelineSchedule {
 public:
  struct Config {
    static void describe(Schema<Config>&) {}
  };
  Fickle(const Config&, const ScheduleArguments&) {}
  std::vector<Action> do_order(const PipelineShape& shape) const override {
    thread_local const bool swapped = threads++ % 2 == 1;
    std::vector<Action> actions;
    for (int i = 0; i < shape.microbatches; ++i) {
      const int microbatch = swapped ? i ^ 1 : i;
      actions.push_back({Action::F, microbatch});
      if (shape.training) actions.push_back({Action::B, microbatch});
    }
    return actions;
  }

 private:
  static std::atomic<int> threads;
};
std::atomic<int> Fickle::threads = 0;

TEST(AgreePlans, RanksOfOneStagePlanTheSame) {
  const auto host = load_plugins();
  host->add_builtin([](Registrar& registrar) {
    registrar.add<PipelineSchedule, Fickle>("fickle", "the test's own");
  });
  for (const char* axis : {"parallel.tensor=2", "parallel.data=2"}) {
    EXPECT_THAT(
        [&] {
          train(tiny_config(),
                {axis, "batch.micro=1", "schedule.type=\"fickle\"", "comm.timeout_s=2"},
                {.host = host.get()});
        },
        ::testing::ThrowsMessage<Error>(
            ::testing::HasSubstr("ranks disagree on their plan: line 1 is \"F mb")));
  }
}

}  // namespace agree_plans_test
}  // namespace tessera::testing
