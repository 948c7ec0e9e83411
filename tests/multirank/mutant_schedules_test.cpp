// Mutants of schedules that the verifier accepts compute what the schedules compute.
#include <gtest/gtest.h>

#include "invariant_support.hpp"
#include "kernel/comm/threads.hpp"
#include "kernel/train/host_maker.hpp"
#include "tessera/plugin.hpp"
#include "tests/unit/schedule/schedule_mutants.hpp"

namespace tessera::testing {
namespace {

// The schedule that "given" stands for; set before its ranks start.
std::shared_ptr<PipelineSchedule> given_schedule;

class Given final : public PipelineSchedule {
 public:
  struct Config {
    static void describe(Schema<Config>&) {}
  };
  Given(const Config&, const ScheduleArguments&) : schedule_(given_schedule) {}
  int chunks() const override { return schedule_->chunks(); }
  Place place(const PipelineShape& shape, int rank, int chunk) const override {
    return schedule_->place(shape, rank, chunk);
  }
  std::vector<Action> order(const PipelineShape& shape) const override {
    return schedule_->order(shape);
  }

 private:
  std::shared_ptr<PipelineSchedule> schedule_;
};

const PluginHost& host_with_given() {
  static const std::unique_ptr<PluginHost> host = [] {
    auto made = load_plugins();
    made->add_builtin([](Registrar& registrar) {
      registrar.add<PipelineSchedule, Given>("given", "the test's own");
    });
    return made;
  }();
  return *host;
}

struct Row {
  std::string schedule;
  int stages = 2;
  Sets sets;
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.schedule; }

class MutantSchedules : public ::testing::TestWithParam<Row> {};

TEST_P(MutantSchedules, ThatAreAcceptedTrainTheSame) {
  const Row& row = GetParam();
  const Sets model = with({"model.layers=6", "batch.micro=1"}, row.sets);
  const Sets layout = {fmt::format("parallel.pipeline={}", row.stages)};
  const Sets named = with(with(model, layout), {fmt::format("schedule.type=\"{}\"", row.schedule)});
  const Resolved config = resolve(Config::parse(tiny_config(), "test", named), plugins());
  HostMaker maker(plugins(), config);
  const std::shared_ptr<PipelineSchedule> schedule = make_schedule(config.run, maker);
  PipelineShape shape{row.stages, 0, schedule->chunks(), 8, true};
  const auto mutants = accepted_mutants(schedule, shape, 4, 20261121);
  ASSERT_FALSE(mutants.empty());
  // One step: the gradients of a rank in double precision say whether the order was right.
  const Sets exact_sets = with(model,
                               {"precision.compute=\"fp64\"",
                                "precision.main=\"fp64\"",
                                "placement.count_embedding=false",
                                "placement.count_head=false"});
  const Training exact = train(tiny_config(), exact_sets, {});
  for (const auto& mutant : mutants) {
    given_schedule = mutant;
    const Training run = train(tiny_config(),
                               with(with(model, layout), {"schedule.type=\"given\""}),
                               {.host = &host_with_given()});
    EXPECT_EQ(difference(run.gradients, exact.gradients), "");
  }
  given_schedule = nullptr;
}

const Sets kFourStages = {"placement.count_embedding=true", "placement.count_head=true"};
INSTANTIATE_TEST_SUITE_P(Schedules,
                         MutantSchedules,
                         ::testing::Values(Row{"gpipe", 2, {}},
                                           Row{"1f1b", 2, {}},
                                           Row{"zb_h1", 2, {}},
                                           Row{"1f1b", 4, kFourStages},
                                           Row{"zbv", 2, kFourStages},
                                           Row{"dualpipe_v", 2, kFourStages}),
                         [](const auto& info) {
                           return fmt::format("{}_{}", info.param.schedule, info.param.stages);
                         });

}  // namespace
}  // namespace tessera::testing
