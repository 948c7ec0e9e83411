// Mutants of schedules that the verifier accepts compute what the schedules compute.
#include <gtest/gtest.h>

#include <mutex>

#include "invariant_support.hpp"
#include "kernel/comm/threads.hpp"
#include "kernel/train/setup/host_maker.hpp"
#include "tessera/plugin.hpp"
#include "tests/unit/schedule/schedule_mutants.hpp"

namespace tessera::testing {
namespace mutant_schedules_test {

// The schedule that "given" stands for; set before its ranks start.
std::shared_ptr<PipelineSchedule> given_schedule;

class Given final : public PipelineSchedule {
 public:
  struct Config {
    static void describe(Schema<Config>&) {}
  };
  Given(const Config&, const ScheduleArguments&) : schedule_(given_schedule) {}
  int do_chunks() const override { return schedule_->chunks(); }
  Place do_place(const PipelineShape& shape, int rank, int chunk) const override {
    return schedule_->place(shape, rank, chunk);
  }
  std::vector<Action> do_order(const PipelineShape& shape) const override {
    return schedule_->order(shape);
  }

 private:
  std::shared_ptr<PipelineSchedule> schedule_;
};

const PluginHost& host_with_given() {
  static const std::unique_ptr<PluginHost> kHost = [] {
    auto made = load_plugins();
    made->add_builtin([](Registrar& registrar) {
      registrar.add<PipelineSchedule, Given>("given", "the test's own");
    });
    return made;
  }();
  return *kHost;
}

struct Row {
  std::string schedule;
  int stages = 2;
  Sets sets;
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.schedule; }

class MutantSchedules : public ::testing::TestWithParam<Row> {
 protected:
  static constexpr int kMicrobatches = 8;
  static Sets model() { return with({"model.layers=6", "batch.micro=1"}, GetParam().sets); }
  static Sets layout(std::string_view schedule) {
    return with(model(),
                {fmt::format("parallel.pipeline={}", GetParam().stages),
                 fmt::format("schedule.type=\"{}\"", schedule)});
  }
  // The same on one rank.
  static Sets alone(const Sets& more) {
    return with(with(model(), more),
                {"placement.count_embedding=false", "placement.count_head=false"});
  }
  // Calls `run`, with the layout whose schedule it is, for some mutants of the row's schedule.
  template <class Run>
  static void for_mutants(bool training, Run&& run) {
    const Resolved config =
        resolve(Config::parse(tiny_config(), "test", layout(GetParam().schedule)), plugins());
    const std::shared_ptr<PipelineSchedule> schedule =
        derive_setup(config, plugins(), world_size(config.run)).schedule;
    const PipelineShape shape{GetParam().stages, 0, schedule->chunks(), kMicrobatches, training};
    const auto mutants = accepted_mutants(schedule, shape, 4, 20261121);
    ASSERT_FALSE(mutants.empty());
    for (const auto& mutant : mutants) {
      given_schedule = mutant;
      run(layout("given"));
    }
    given_schedule = nullptr;
  }
};

// One step: the gradients of a rank in double precision say whether the order was right.
TEST_P(MutantSchedules, ThatAreAcceptedTrainTheSame) {
  const Training exact =
      train(tiny_config(), alone({"precision.compute=\"fp64\"", "precision.main=\"fp64\""}), {});
  for_mutants(true, [&](const Sets& sets) {
    const Training run = train(tiny_config(), sets, {.host = &host_with_given()});
    EXPECT_EQ(difference(run.gradients, exact.gradients), "");
  });
}

double validation_loss(const Sets& sets) {
  std::mutex mutex;
  double loss = 0;
  const auto validate = [&](RankRun& run) {
    const double mine =
        run.evaluation().validate(13).loss;  // more than a round, and not a multiple of it
    const std::lock_guard lock(mutex);
    if (run.mesh().rank() == 0) loss = mine;
  };
  train(tiny_config(), sets, {.steps = 0, .host = &host_with_given(), .at_end = validate});
  return loss;
}

TEST_P(MutantSchedules, ThatAreAcceptedEvaluateTheSame) {
  const double alone_loss = validation_loss(alone({}));
  EXPECT_GT(alone_loss, 0);
  for_mutants(false, [&](const Sets& sets) {
    EXPECT_EQ(difference({validation_loss(sets)}, {alone_loss}, kLossTolerance, "loss"), "");
  });
}

const Sets kFourStages = {"placement.count_embedding=true", "placement.count_head=true"};
INSTANTIATE_TEST_SUITE_P(Schedules,
                         MutantSchedules,
                         ::testing::Values(Row{"gpipe", 2, {}},
                                           Row{"1f1b", 2, {}},
                                           Row{"zb_h1", 2, {}},
                                           Row{"1f1b", 4, kFourStages},
                                           Row{"interleaved_1f1b", 2, kFourStages},
                                           Row{"zbv", 2, kFourStages},
                                           Row{"dualpipe_v", 2, kFourStages}),
                         [](const auto& info) {
                           return fmt::format("{}_{}", info.param.schedule, info.param.stages);
                         });

}  // namespace mutant_schedules_test
}  // namespace tessera::testing
