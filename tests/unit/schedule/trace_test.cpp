// What is in a trace, of times that are given.
#include "kernel/schedule/trace.hpp"

#include <gmock/gmock.h>

#include "common/trace_events.hpp"
#include "schedule_support.hpp"
#include "tessera/error.hpp"

namespace tessera::testing {
namespace schedule_trace_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::ThrowsMessage;
using ::testing::UnorderedElementsAre;

using enum Action::Kind;

// Forwards of two microbatches, which take turns with a backward, in a phase that starts an
// exchange, each.
Plan pair_of_passes() {
  static const GivenSchedule kSchedule({{{F, 0}, {F, 1}, {B, 0}, {B, 1}}}, 2);
  return lower(kSchedule, one_stage(2), two_phases_a_chunk(1), {{{0}}});
}

// Each action works for a second, after it has waited for half of one.
TracedStep each_a_second(const Plan& plan) {
  TracedStep step{.step = 3};
  for (std::size_t i = 0; i < plan.actions.size(); ++i) {
    const auto at = static_cast<double>(2 * i);
    step.times.push_back({at, at + 0.5, at + 1.5});
  }
  return step;
}

TraceEvents events_of(const Plan& plan, const TracedStep& step, const TracedDetails& details = {}) {
  const TracedRank rank{.rank = 4, .name = "rank 4"};
  const std::string events = trace_events(rank, plan, step, details);
  return events_of_trace(trace_file(std::vector{events}));
}

std::vector<std::string> tracks_of(const TraceEvents& events) {
  std::vector<std::string> names;
  for (const auto& [track, name] : track_names(events)) names.push_back(name);
  return names;
}

TEST(ScheduleTrace, HasATrackForEachLane) {
  const Plan plan = pair_of_passes();
  const TraceEvents events = events_of(plan, each_a_second(plan));
  expect_valid_trace(events);
  EXPECT_THAT(tracks_of(events),
              ElementsAre("compute", "comm forward", "comm backward", "collective"));
  // F attn, F mlp twice, B mlp, B attn twice; mlp starts an exchange.
  EXPECT_THAT(slices_on(events, "compute"), SizeIs(9)) << "and the step";
  const TraceEvents backward = slices_on(events, "comm backward");
  ASSERT_THAT(backward, SizeIs(2));
  const auto& rows = backward[0];
  EXPECT_EQ(rows.at("name"), "B mlp");
  EXPECT_EQ(rows.at("args").at("read_by"), "B mb0 chunk0 layer0 attn");
  EXPECT_EQ(rows.at("ts"), 8.5e6) << "from the start of the phase";
  EXPECT_EQ(rows.at("dur"), 2e6) << "to the work of the next";
  const TraceEvents forward = slices_on(events, "comm forward");
  ASSERT_THAT(forward, SizeIs(2));
  EXPECT_EQ(forward[0].at("dur"), 1e6) << "nothing of the chunk follows: it has waited itself";
  EXPECT_FALSE(forward[0].at("args").contains("read_by"));
  for (const auto& slice : slices_on(events, "compute")) {
    EXPECT_EQ(slice.at("args").at("waited_us"), 5e5);
    EXPECT_EQ(slice.at("args").at("step"), 3);
  }
}

TEST(ScheduleTrace, HasBucketsUnderWayUpToTheirReader) {
  const Plan plan = pair_of_passes();
  const TraceEvents events = events_of(plan, each_a_second(plan));
  const TraceEvents begun = of_phase(events, "b"), done = of_phase(events, "e");
  ASSERT_THAT(begun, SizeIs(1));
  ASSERT_THAT(done, SizeIs(1));
  EXPECT_EQ(begun[0].at("name"), "Reduce bucket 0");
  EXPECT_EQ(begun[0].at("args").at("read_by"), "Step");
  EXPECT_EQ(begun[0].at("id"), done[0].at("id"));
  const auto posted = slices_on(events, "collective").at(0);
  EXPECT_EQ(begun[0].at("ts"), posted.at("ts"));
  for (const auto& slice : slices_on(events, "compute")) {
    if (slice.at("name") == "Step") {
      EXPECT_EQ(done[0].at("ts"), slice.at("ts"));
    }
  }
}

TEST(ScheduleTrace, HasReadbacksWithArrowsToWhatWaits) {
  const Plan plan = pair_of_passes();
  const TraceEvents events =
      events_of(plan, each_a_second(plan), {.readbacks = {{0, 1, 0}, {2, 3, 0}}});
  expect_valid_trace(events);
  const TraceEvents readbacks = slices_on(events, "readback");
  ASSERT_THAT(readbacks, SizeIs(2));
  EXPECT_EQ(readbacks[1].at("name"), "readback of attn");
  EXPECT_EQ(readbacks[1].at("args").at("read_by"), "F mb1 chunk0 layer0 mlp");
  EXPECT_EQ(readbacks[1].at("ts"), 5.5e6);
  EXPECT_EQ(readbacks[1].at("dur"), 1e6);
  EXPECT_THAT(of_phase(events, "s"), SizeIs(2));
  EXPECT_THAT(of_phase(events, "f"), SizeIs(2));
  EXPECT_EQ(slices_on(events, "compute")[3].at("args").at("waits_for_integers_of"),
            "F mb1 chunk0 layer0 attn");
}

TEST(ScheduleTrace, HasReplaysOfSegmentsAndOfWholeSteps) {
  const Plan plan = pair_of_passes();
  const TraceEvents events =
      events_of(plan, each_a_second(plan), {{{2, "F layer0 attn", 1}, {4, "B layer0 mlp", 0}}});
  expect_valid_trace(events);
  const TraceEvents replays = slices_on(events, "graph");
  ASSERT_THAT(replays, SizeIs(2));
  EXPECT_EQ(replays[0].at("name"), "F layer0 attn");
  EXPECT_EQ(replays[0].at("args").at("slot"), 1);
  EXPECT_EQ(replays[0].at("ts"), 4.5e6);

  const TraceEvents whole = events_of(plan, {.step = 4, .replay = Span{1, 3}});
  expect_valid_trace(whole);
  EXPECT_THAT(tracks_of(whole), ElementsAre("graph"));
  ASSERT_THAT(slices_on(whole, "graph"), SizeIs(1));
  EXPECT_EQ(slices_on(whole, "graph")[0].at("dur"), 2e6);
}

TEST(ScheduleTrace, WantsTimesOfAllActions) {
  const Plan plan = pair_of_passes();
  TracedStep step = each_a_second(plan);
  step.times.pop_back();
  EXPECT_THAT([&] { events_of(plan, step); },
              ThrowsMessage<Error>("a trace of 9 times and 0 memories for the 10 actions of a "
                                   "plan"));
}

}  // namespace schedule_trace_test
}  // namespace tessera::testing
