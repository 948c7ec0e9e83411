#include "kernel/planner/advice.hpp"

#include <gmock/gmock.h>

#include "kernel/planner/report.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace advice_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr i64 kGiB = i64{1} << 30;

// Two pipeline ranks, each of two data-parallel replicas; the second holds more.
Prediction two_stages(i64 first = 3 * kGiB, i64 second = 5 * kGiB) {
  Prediction p;
  p.run = "two";
  p.layout.world = 4;
  p.layout.pipeline = 2;
  p.data = 2;
  p.micro = 4;
  p.microbatches = 2;
  p.global = 16;
  p.sequence_length = 8;
  p.step_seconds = 1;
  for (i64 rank : {0, 1}) {
    Representative of;
    of.of = {.pipeline = rank, .context = 0, .first = 2 * rank, .ranks = 2};
    of.memory.touched = of.memory.reserved = rank == 0 ? first : second;
    p.classes.push_back(std::move(of));
  }
  return p;
}

Prediction never(const std::vector<std::string>& sets) {
  ADD_FAILURE() << "predicted " << fmt::format("{}", fmt::join(sets, " "));
  fail("no");
}

TEST(Fits, ADeviceHoldsOneRankAndAHostAllOfItsOwn) {
  Prediction p = two_stages();
  p.hardware.memory.shared = false;
  Fit fit = fit_of(p, 6 * kGiB);
  EXPECT_EQ(fit.held, 5 * kGiB);
  EXPECT_EQ(fit.rank, 2);
  EXPECT_TRUE(fit.fits());
  EXPECT_FALSE(fit_of(p, 5 * kGiB - 1).fits());

  p.hardware.memory.shared = true;
  fit = fit_of(p, 15 * kGiB);
  EXPECT_EQ(fit.held, 16 * kGiB);
  EXPECT_EQ(fit.ranks, 4);
  EXPECT_FALSE(fit.fits());
  p.hardware.ranks_per_host = 2;
  fit = fit_of(p, 0);
  EXPECT_EQ(fit.held, 10 * kGiB);
  EXPECT_EQ(fit.rank, 2);
  EXPECT_EQ(fit.capacity, 0);
}

TEST(Fits, RanksThatShareADevice) {
  Prediction p = two_stages();
  p.hardware.memory.shared = false;
  p.ranks_on_unit = 2;
  const Fit fit = fit_of(p, 9 * kGiB);
  EXPECT_EQ(fit.held, 10 * kGiB);
  EXPECT_EQ(fit.rank, 2);
  EXPECT_EQ(fit.ranks, 2);
  EXPECT_FALSE(fit.fits());
  Advice advice;
  advice.fit = fit;
  EXPECT_THAT(advice_text(p, advice),
              HasSubstr("memory: ranks 2 to 3 of one device hold 10.0 GiB"));
  p.ranks_on_unit = 3;
  EXPECT_EQ(fit_of(p, 0).held, 11 * kGiB);
  p.hardware.ranks_per_host = 2;  // not across hosts
  EXPECT_EQ(fit_of(p, 0).held, 10 * kGiB);
}

TEST(Fits, ATableStatesTheMemory) {
  Prediction p = two_stages();
  p.hardware.memory.capacity = 20e9;
  EXPECT_EQ(fit_of(p, 0).capacity, 20'000'000'000);
  EXPECT_EQ(fit_of(p, kGiB).capacity, kGiB);
}

TEST(Advice, OfARunThatFitsAndHasNoLongBubble) {
  const Prediction p = two_stages();
  const std::string text = advice_text(p, advise(p, RunConfig(), 16 * kGiB, never));
  EXPECT_EQ(text, "memory: ranks 0 to 3 of one host hold 16.0 GiB of 16.0 GiB: it fits\n");
  EXPECT_THAT(advice_text(p, advise(p, RunConfig(), 0, never)),
              HasSubstr("16.0 GiB; --memory SIZE says whether that fits\n"));
}

TEST(Advice, SaysWhatToChangeWhenItDoesNotFit) {
  const auto on_devices = [](i64 second) {
    Prediction p = two_stages(kGiB, second);
    p.hardware.memory.shared = false;
    return p;
  };
  const Prediction p = on_devices(5 * kGiB);
  const Predict predict = [&](const std::vector<std::string>& sets) {
    const std::string set = fmt::format("{}", fmt::join(sets, " "));
    if (set == "recompute.mode=selective") return on_devices(4 * kGiB);
    if (set == "recompute.mode=full") return on_devices(3 * kGiB);
    if (set == "batch.micro=2") return on_devices(4 * kGiB);
    if (set == "recompute.mode=full batch.micro=2") return on_devices(2 * kGiB);
    fail("4 heads do not divide");
  };
  const Advice advice = advise(p, RunConfig(), 2 * kGiB, predict);
  ASSERT_EQ(advice.smaller.size(), 4U);
  EXPECT_TRUE(advice.smaller[3].fits);
  const std::string text = advice_text(p, advice);
  EXPECT_THAT(text,
              AllOf(HasSubstr("memory: rank 2 holds 5.00 GiB, 3.00 GiB more than the 2.00 GiB that "
                              "there are: it does not fit\n"),
                    HasSubstr("  --set recompute.mode=full --set batch.micro=2  2.00 GiB, fits"),
                    HasSubstr("  --set batch.micro=2 ")));
  EXPECT_THAT(report_json(p, &advice), HasSubstr("\"fits\":false"));

  const Predict nothing = [](const auto&) -> Prediction { fail("no"); };
  EXPECT_THAT(advice_text(p, advise(p, RunConfig(), 2 * kGiB, nothing)),
              HasSubstr("nothing that was tried holds less"));
}

TEST(Advice, NamesTheNextBetterMicrobatchCount) {
  Prediction p = two_stages();
  p.bubble = 0.4;
  const Predict predict = [](const std::vector<std::string>& sets) {
    Prediction other = two_stages();
    other.bubble = 0.4;
    if (sets[0] == "batch.micro=1") {
      other.bubble = 0.2;
      other.microbatches = 8;
    }
    if (sets[0] == "batch.global=8") {
      other.bubble = 0.3;
      other.microbatches = 4;
    }
    return other;
  };
  EXPECT_THAT(advice_text(p, advise(p, RunConfig(), 0, predict)),
              HasSubstr("warning: the bubble is long: ranks wait 40.0 % of a step; --set "
                        "batch.micro=1 gives 8 microbatches, bubble 20.0 %, step 1 s\n"));
  // Nothing left to cut: a larger batch.
  p.micro = 1;
  EXPECT_EQ(advise(p, RunConfig(), 0, predict).less_bubble->change, "batch.global=8");
  p.micro = 4;
  p.bubble = 0.15;
  EXPECT_THAT(advice_text(p, advise(p, RunConfig(), 0, never)), Not(HasSubstr("warning")));
}

// A run whose phases exchange rows, with schedule.overlap and without.
TEST(Advice, SaysWhatOverlapWins) {
  Prediction without = two_stages();
  without.classes[0].plan.phases.resize(2);
  without.classes[0].plan.phases[1].starts_exchange = true;
  Prediction with = two_stages(4 * kGiB, 6 * kGiB);
  with.overlaps = true;
  with.step_seconds = 0.8;
  const auto text = [](const Prediction& now, const Prediction& other, const std::string& set) {
    const auto predict = [&](const std::vector<std::string>& sets) {
      EXPECT_EQ(sets, std::vector{set});
      return other;
    };
    return advice_text(now, advise(now, RunConfig(), 64 * kGiB, predict));
  };
  const std::string times = "step 800 ms with it, 1 s without: 20.0 % shorter";
  EXPECT_THAT(text(without, with, "schedule.overlap=true"),
              HasSubstr("overlap of passes (schedule.overlap = false): " + times));
  EXPECT_THAT(text(with, without, "schedule.overlap=false"),
              AllOf(HasSubstr("overlap of passes (schedule.overlap = true): " + times),
                    HasSubstr("; 20.0 GiB held with it, 16.0 GiB without\n")));
  with.step_seconds = 1.25;
  EXPECT_THAT(text(without, with, "schedule.overlap=true"), HasSubstr(": 25.0 % longer;"));
  const auto refuses = [](const std::vector<std::string>&) -> Prediction {
    fail_config("[schedule] unknown key \"overlap\"");
  };
  EXPECT_THAT(advice_text(without, advise(without, RunConfig(), 64 * kGiB, refuses)),
              Not(HasSubstr("overlap")));
}

}  // namespace advice_test
}  // namespace tessera
