// Traces of a training and of its plan: every action once, on lanes where nothing overlaps.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "train_support.hpp"

namespace tessera {
namespace trace_test {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TinyRun;

const std::vector<std::string>& pipeline() {
  static const std::vector<std::string> kSets = {"parallel.pipeline=2",
                                                 "model.layers=4",
                                                 "schedule.type=interleaved_1f1b",
                                                 "batch.micro=2",
                                                 "observers.trace.steps=[2, 3]"};
  return kSets;
}

std::vector<json> events_of(const std::string& path) {
  const json file = json::parse(std::ifstream(path));
  return file.at("traceEvents").get<std::vector<json>>();
}

std::vector<json> of_phase(const std::vector<json>& events, const std::string& ph) {
  std::vector<json> found;
  std::ranges::copy_if(
      events, std::back_inserter(found), [&](const json& e) { return e.at("ph") == ph; });
  return found;
}

/// What the actions of one rank's step are called, by their index in the plan. Each comes once.
using Names = std::map<int, std::string>;
std::map<std::pair<int, int>, Names> names_of(const std::vector<json>& slices) {
  std::map<std::pair<int, int>, Names> all;
  for (const json& slice : slices) {
    const json& details = slice.at("args");
    const auto [at, added] = all[{slice.at("pid"), details.at("step")}].emplace(
        details.at("action"), slice.at("name").get<std::string>() + details.at("waits_for").dump());
    EXPECT_TRUE(added) << slice;
  }
  return all;
}

void expect_no_overlap(std::vector<json> slices) {
  std::map<std::pair<int, int>, double> ends;
  std::ranges::sort(slices, {}, [](const json& slice) { return slice.at("ts").get<double>(); });
  for (const json& slice : slices) {
    const double start = slice.at("ts"), length = slice.at("dur");
    EXPECT_GE(length, 0) << slice;
    double& end = ends[{slice.at("pid"), slice.at("tid")}];
    EXPECT_GE(start, end - 2e-3) << slice;
    end = start + length;
  }
}

// Each rank puts its own clock beside the host's, and may be held up meanwhile.
constexpr double kClockUs = 1000;

/// Each arrow begins once and ends once, not before it began.
void expect_whole_arrows(const std::vector<json>& events) {
  std::map<std::string, double> begun;
  for (const json& begin : of_phase(events, "s")) {
    EXPECT_TRUE(begun.emplace(begin.at("id"), begin.at("ts").get<double>()).second) << begin;
  }
  EXPECT_FALSE(begun.empty());
  for (const json& end : of_phase(events, "f")) {
    const auto from = begun.find(end.at("id"));
    ASSERT_NE(from, begun.end()) << end;
    EXPECT_GE(end.at("ts").get<double>(), from->second - kClockUs) << end;
    begun.erase(from);
  }
  EXPECT_TRUE(begun.empty());
}

TEST(Trace, HasEachActionOfTheTrainingAndOfItsPlan) {
  const TinyRun run;
  const auto trained = run.train(TinyRun::steps(4, "run", pipeline()));
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  const std::vector<json> events = events_of(run.at("run/trace.json"));
  const auto actions = names_of(of_phase(events, "X"));

  std::vector<std::string> words = {"plan", run.at("tiny.toml"), "--trace", run.at("plan.json")};
  for (const std::string& set : TinyRun::steps(4, "run", pipeline())) {
    words.insert(words.end(), {"--set", set});
  }
  const auto planned = testing::run_tessera(words, run.options());
  ASSERT_EQ(planned.exit_code, 0) << planned.err;
  const std::vector<json> plan = events_of(run.at("plan.json"));
  const auto plans = names_of(of_phase(plan, "X"));

  ASSERT_EQ(plans.size(), 2U);
  ASSERT_EQ(actions.size(), 4U);  // two ranks, steps 2 and 3
  for (const int rank : {0, 1}) {
    const Names& expected = plans.at({rank, 0});
    EXPECT_EQ(expected.rbegin()->first + 1, static_cast<int>(expected.size()));
    for (const int step : {2, 3}) EXPECT_EQ(actions.at({rank, step}), expected);
  }
  for (const auto& of : {events, plan}) {
    expect_no_overlap(of_phase(of, "X"));
    expect_whole_arrows(of);
  }

  const std::vector<json> counters = of_phase(events, "C");
  EXPECT_EQ(counters.size(), of_phase(events, "X").size());
  for (const json& counter : counters) {
    EXPECT_GT(counter.at("args").at("parameters").get<double>(), 0);
    EXPECT_TRUE(counter.at("args").contains("activations"));
  }
  std::set<std::string> tracks;
  for (const json& name : of_phase(events, "M")) tracks.insert(name.at("args").at("name"));
  EXPECT_THAT(tracks,
              ElementsAre("collective", "compute", "exchange", "rank 0, pp 0", "rank 1, pp 1"));
}

TEST(Trace, OfARunThatEndsBeforeIsWrittenAtItsEnd) {
  const TinyRun run;
  const auto trained = run.train(TinyRun::steps(2, "run", {"observers.trace.steps=[2, 9]"}));
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  std::vector<int> steps;
  for (const json& slice : of_phase(events_of(run.at("run/trace.json")), "X")) {
    steps.push_back(slice.at("args").at("step"));
  }
  ASSERT_FALSE(steps.empty());
  EXPECT_THAT(steps, Each(2));
}

TEST(Trace, NeedsAFirstAndALastStep) {
  const TinyRun run;
  const auto trained = run.train(TinyRun::steps(2, "run", {"observers.trace.steps=[3]"}));
  EXPECT_NE(trained.exit_code, 0);
  EXPECT_THAT(trained.err,
              HasSubstr("trace: steps must be the first and the last step that are recorded, as "
                        "[10, 12]"));
  EXPECT_FALSE(fs::exists(run.at("run/trace.json")));
}

}  // namespace trace_test
}  // namespace tessera
