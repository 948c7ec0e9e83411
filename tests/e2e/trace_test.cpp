// Traces of a training and of its plan: every action once, on tracks that Perfetto accepts.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "common/trace_events.hpp"
#include "train_support.hpp"

namespace tessera {
namespace trace_test {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::HasSubstr;
using testing::of_phase;
using ::testing::SizeIs;
using testing::slices_on;
using testing::TinyRun;
using testing::TraceEvents;

const std::vector<std::string>& pipeline() {
  static const std::vector<std::string> kSets = {"parallel.pipeline=2",
                                                 "model.layers=4",
                                                 "schedule.type=interleaved_1f1b",
                                                 "batch.micro=2",
                                                 "observers.trace.steps=[2, 3]"};
  return kSets;
}

TraceEvents events_of(const std::string& path) {
  std::ifstream file(path);
  return testing::events_of_trace({std::istreambuf_iterator<char>(file), {}});
}

/// Slices of actions, without what is under way, read back or replayed meanwhile.
TraceEvents actions_of(const TraceEvents& events) {
  TraceEvents found;
  for (const json& slice : of_phase(events, "X")) {
    if (slice.at("args").contains("waits_for")) found.push_back(slice);
  }
  return found;
}

/// What the actions of one rank's step are called, by their index in the plan. Each comes once.
using Names = std::map<int, std::string>;
std::map<std::pair<int, int>, Names> names_of(const TraceEvents& slices) {
  std::map<std::pair<int, int>, Names> all;
  for (const json& slice : slices) {
    const json& details = slice.at("args");
    const auto [at, added] = all[{slice.at("pid"), details.at("step")}].emplace(
        details.at("action"), slice.at("name").get<std::string>() + details.at("waits_for").dump());
    EXPECT_TRUE(added) << slice;
  }
  return all;
}

// Each rank puts its own clock beside the host's, and may be held up meanwhile.
constexpr double kClockUs = 1000;

TraceEvents traced(const TinyRun& run, const std::vector<std::string>& sets, int steps) {
  const auto trained = run.train(TinyRun::steps(steps, "run", sets));
  EXPECT_EQ(trained.exit_code, 0) << trained.err;
  return events_of(run.at("run/trace.json"));
}

TraceEvents planned(const TinyRun& run, const std::vector<std::string>& sets, int steps) {
  std::vector<std::string> words = {"plan", run.at("tiny.toml"), "--trace", run.at("plan.json")};
  for (const std::string& set : TinyRun::steps(steps, "run", sets)) {
    words.insert(words.end(), {"--set", set});
  }
  const auto planned = testing::run_tessera(words, run.options());
  EXPECT_EQ(planned.exit_code, 0) << planned.err;
  return events_of(run.at("plan.json"));
}

TEST(Trace, HasEachActionOfTheTrainingAndOfItsPlan) {
  const TinyRun run;
  const TraceEvents events = traced(run, pipeline(), 4);
  const auto actions = names_of(actions_of(events));
  const TraceEvents plan = planned(run, pipeline(), 4);
  const auto plans = names_of(actions_of(plan));

  ASSERT_EQ(plans.size(), 2U);
  ASSERT_EQ(actions.size(), 4U);  // two ranks, steps 2 and 3
  for (const int rank : {0, 1}) {
    const Names& expected = plans.at({rank, 0});
    EXPECT_EQ(expected.rbegin()->first + 1, static_cast<int>(expected.size()));
    for (const int step : {2, 3}) EXPECT_EQ(actions.at({rank, step}), expected);
  }
  testing::expect_valid_trace(events, kClockUs);
  testing::expect_valid_trace(plan);
  EXPECT_THAT(of_phase(events, "s"), SizeIs(Gt(0U)));

  const TraceEvents counters = of_phase(events, "C");
  EXPECT_EQ(counters.size(), actions_of(events).size());
  for (const json& counter : counters) {
    EXPECT_GT(counter.at("args").at("parameters").get<double>(), 0);
    EXPECT_TRUE(counter.at("args").contains("activations"));
  }
  std::set<std::string> tracks;
  for (const json& name : of_phase(events, "M")) tracks.insert(name.at("args").at("name"));
  EXPECT_THAT(tracks,
              ElementsAre("collective", "compute", "exchange", "rank 0, pp 0", "rank 1, pp 1"));
}

// Experts on two ranks, whose exchanges hide behind the other pass; what decides on them is in
// graphs, and how many rows there are is read back.
TEST(Trace, HasLanesReplaysAndReadbacks) {
  const std::vector<std::string> sets = {"model.block.mlp.type=moe",
                                         "model.block.mlp.experts=4",
                                         "model.block.mlp.ffn=8",
                                         "parallel.expert=2",
                                         "batch.micro=1",
                                         "schedule.overlap=true",
                                         "graph.type=partial",
                                         "graph.scope=[\"moe_router\", \"moe_preprocess\"]",
                                         "observers.trace.steps=[2, 2]"};
  const TinyRun run;
  for (const TraceEvents& events : {traced(run, sets, 2), planned(run, sets, 2)}) {
    testing::expect_valid_trace(events, kClockUs);
    const int layers = 2, microbatches = 4;
    std::map<int, int> ranks;
    for (const json& slice : actions_of(events)) ++ranks[slice.at("pid").get<int>()];
    const std::size_t passes = ranks.size() * layers * microbatches;
    // Dispatch and combine of each.
    EXPECT_THAT(slices_on(events, "comm forward"), SizeIs(2 * passes));
    EXPECT_THAT(slices_on(events, "comm backward"), SizeIs(2 * passes));
    EXPECT_THAT(slices_on(events, "graph"), SizeIs(2 * passes)) << "forward, backward";
    const TraceEvents readbacks = slices_on(events, "readback");
    EXPECT_THAT(readbacks, SizeIs(passes));
    for (const json& readback : readbacks) {
      EXPECT_EQ(readback.at("name"), "readback of moe_preprocess");
      EXPECT_THAT(readback.at("args").at("read_by"), HasSubstr("moe_dispatch"));
    }
    EXPECT_THAT(of_phase(events, "f"), SizeIs(passes));
    std::set<int> slots;
    for (const json& replay : slices_on(events, "graph")) {
      EXPECT_THAT(replay.at("name"), HasSubstr(" moe_router to moe_preprocess"));
      slots.insert(replay.at("args").at("slot").get<int>());
    }
    EXPECT_THAT(slots, ElementsAre(0, 1)) << "one more microbatch is live";
  }
}

// Without overlap each reader waits for its rows, forward, backward and where they are recomputed.
// The wait comes before its work.
TEST(Trace, ShowsWaitsForRowsApart) {
  const std::vector<std::string> sets = {"model.block.mlp.type=moe",
                                         "model.block.mlp.experts=4",
                                         "model.block.mlp.ffn=8",
                                         "parallel.expert=2",
                                         "recompute.mode=full",
                                         "observers.trace.steps=[2, 2]"};
  const TinyRun run;
  for (const TraceEvents& events : {traced(run, sets, 2), planned(run, sets, 2)}) {
    auto readers = testing::expect_arrivals(events);
    std::map<std::string, int> waited;
    for (const auto& [track, slices] : readers) {
      for (const json& slice : slices) {
        EXPECT_GT(slice.at("args").value("waited_us", 0.0), 0) << slice;
        ++waited[slice.at("cat")];
      }
    }
    EXPECT_GT(waited["F"], 0);
    EXPECT_EQ(waited["B"], waited["F"]);
    EXPECT_EQ(waited["Recompute"], waited["F"]);
  }
}

// What is done to a bucket in a step: its parameters are gathered, its weights packed, and its
// gradients summed. Each rank tells each of them once, and until when messages were under way.
TEST(Trace, NamesTheBucketsThatAreGatheredPreparedAndReduced) {
  const std::vector<std::string> sets = {"parallel.data=2",
                                         "parallel.bucket_elements=10000",
                                         "optimizer.type=distributed",
                                         "precision.compute=bf16",
                                         "precision.prepare_weights=true",
                                         "device.type=cpu",
                                         "observers.trace.steps=[2, 3]"};
  const TinyRun run;
  for (const TraceEvents& events : {traced(run, sets, 3), planned(run, sets, 3)}) {
    testing::expect_valid_trace(events, kClockUs);
    const std::size_t steps = names_of(actions_of(events)).size();  // of all ranks
    std::map<std::string, std::size_t> actions, under_way;
    for (const std::string track : {"collective", "compute"}) {
      for (const json& slice : slices_on(events, track)) {
        const json& details = slice.at("args");
        if (!details.contains("bucket")) continue;
        ++actions[track + ": " + slice.at("name").get<std::string>() + " bucket " +
                  details.at("bucket").dump()];
      }
    }
    const std::map<std::string, std::size_t> expected = {{"collective: Gather bucket 0", steps},
                                                         {"collective: Gather bucket 1", steps},
                                                         {"collective: Reduce bucket 0", steps},
                                                         {"collective: Reduce bucket 1", steps},
                                                         {"compute: Prepare bucket 0", steps},
                                                         {"compute: Prepare bucket 1", steps}};
    EXPECT_EQ(actions, expected);
    std::map<std::string, double> ends;
    for (const json& end : of_phase(events, "e")) ends[end.at("id")] = end.at("ts");
    for (const json& begin : of_phase(events, "b")) {
      ++under_way[begin.at("name").get<std::string>() + " until " +
                  begin.at("args").at("read_by").get<std::string>()];
      EXPECT_GE(ends.at(begin.at("id")), begin.at("ts").get<double>()) << begin;
    }
    const std::map<std::string, std::size_t> messages = {
        {"Gather bucket 0 until Prepare bucket0 over dp-cp", steps},
        {"Gather bucket 1 until Prepare bucket1 over dp-cp", steps},
        {"Reduce bucket 0 until Step", steps},
        {"Reduce bucket 1 until Step", steps}};
    EXPECT_EQ(under_way, messages);
  }
}

// The first step shows its actions, the others that one graph has run.
TEST(Trace, OfAWholeStepShowsItsReplay) {
  const std::vector<std::string> sets = {"graph.type=full_iteration",
                                         "observers.trace.steps=[3, 5]"};
  const TinyRun run;
  const TraceEvents events = traced(run, sets, 6);
  testing::expect_valid_trace(events);
  for (const json& slice : actions_of(events)) EXPECT_EQ(slice.at("args").at("step"), 3);
  EXPECT_THAT(actions_of(events), SizeIs(Gt(0U)));
  std::vector<int> replayed;
  for (const json& replay : slices_on(events, "graph")) {
    EXPECT_EQ(replay.at("name"), "whole step");
    EXPECT_GT(replay.at("dur").get<double>(), 0);
    replayed.push_back(replay.at("args").at("step"));
  }
  EXPECT_THAT(replayed, ElementsAre(4, 5));
  EXPECT_THAT(slices_on(planned(run, sets, 6), "graph"), SizeIs(1));
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
  for (const std::string steps : {"[3]", "[12, 10]", "[0, 2]", "[1, 2, 3]"}) {
    const auto checked = testing::run_tessera(
        {"config", "check", run.at("tiny.toml"), "--set", "observers.trace.steps=" + steps},
        run.options());
    EXPECT_EQ(checked.exit_code, 2);
    EXPECT_THAT(checked.err,
                HasSubstr("--set #1: [observers.trace] steps: expected array of integer in [1, "
                          "100000000000]: first and last, in order, got " +
                          steps));
  }
}

}  // namespace trace_test
}  // namespace tessera
