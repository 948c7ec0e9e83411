#include "kernel/schedule/trace.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "kernel/schedule/lower.hpp"
#include "tessera/error.hpp"
#include "tessera/io/json.hpp"

namespace tessera {

namespace {

enum Track { kCompute, kCommForward, kCommBackward, kExchange, kCollective, kReadback, kGraph };
constexpr std::array<std::string_view, kGraph + 1> kTracks = {
    "compute", "comm forward", "comm backward", "exchange", "collective", "readback", "graph"};

Track track_of(PlanAction::Kind kind) {
  switch (kind) {
    case PlanAction::Exchange:
      return kExchange;
    case PlanAction::Gather:
    case PlanAction::Reduce:
      return kCollective;
    default:
      return kCompute;
  }
}

// Microseconds, as the format wants, to a nanosecond.
double micros(double seconds) { return std::round(seconds * 1e9) / 1e3; }

class Events {
 public:
  Events(const TracedRank& of,
         const Plan& plan,
         const TracedStep& step,
         const TracedDetails& details)
      : of_(of), plan_(plan), step_(step), details_(details) {}

  void action(std::size_t index) {
    const PlanAction& action = action_at(index);
    const ActionTimes& times = step_.times[index];
    Json details = details_of(index);
    if (action.bucket >= 0) details.add("bucket", action.bucket);
    details.add("waits_for",
                Json::array(action.after, [&](int before) { return Json(text(before)); }));
    for (const TracedReadback& readback : details_.readbacks) {
      if (readback.to == static_cast<int>(index)) {
        details.add("waits_for_integers_of", text(readback.from));
      }
    }
    if (times.start > times.begin) details.add("waited_us", micros(times.start - times.begin));
    slice(track_of(action.kind),
          name_of(action),
          action_name(action.kind),
          {times.start, times.end},
          details);
    for (const PlanAction::Message& message : action.sends) {
      message_arrow(message, true, times.start, track_of(action.kind));
    }
  }

  // What a phase that starts an exchange has started, until the action that reads it begins its
  // work.
  void under_way(std::size_t index) {
    if (!leaves_under_way(plan_, index)) return;
    const PlanAction& action = action_at(index);
    const int reader = next_in_pass(plan_, index);
    Json details = details_of(index);
    double end = step_.times[index].end;
    if (reader >= 0) {
      details.add("read_by", text(reader)).add("reader", reader);
      end = std::max(end, step_.times[static_cast<std::size_t>(reader)].start);
    }
    slice(action.kind == PlanAction::F ? kCommForward : kCommBackward,
          name_of(action),
          "under way",
          {step_.times[index].start, end},
          details);
  }

  // What a Reduce or a Gather has posted, until the first action that reads it begins its work.
  // Events of several buckets may overlap.
  void bucket_under_way(std::size_t bucket, std::size_t reader) {
    if (track_of(action_at(bucket).kind) != kCollective) return;
    Json details = details_of(bucket);
    details.add("bucket", action_at(bucket).bucket).add("read_by", text(static_cast<int>(reader)));
    const auto name =
        fmt::format("{} bucket {}", name_of(action_at(bucket)), action_at(bucket).bucket);
    const auto id = fmt::format("{}.{}.bucket.{}", step_.step, of_.rank, bucket);
    const auto end = [&](std::string_view phase, double at) {
      return Json()
          .add("ph", phase)
          .add("cat", "bucket")
          .add("name", name)
          .add("id", id)
          .add("ts", micros(at));
    };
    push(end("b", step_.times[bucket].start).add("args", details), kCollective);
    push(end("e", std::max(step_.times[bucket].end, step_.times[reader].start)), kCollective);
  }

  // Each message of an exchange has its own reader.
  void received(std::size_t reader, const PlanAction& exchange) {
    const PlanAction& action = action_at(reader);
    for (const PlanAction::Message& message : exchange.receives) {
      if (message.microbatch != action.microbatch) continue;
      if (message.forward != (action.kind == PlanAction::F)) continue;
      message_arrow(message, false, step_.times[reader].start, track_of(action.kind));
    }
  }

  void readback(const TracedReadback& readback) {
    const auto from = static_cast<std::size_t>(readback.from);
    const auto to = static_cast<std::size_t>(readback.to);
    const Span span{step_.times[from].end, step_.times[to].start};
    Json details = details_of(from);
    details.add("read_by", text(readback.to));
    slice(kReadback,
          "readback of " + plan_.phases[static_cast<std::size_t>(readback.phase)].scope,
          "readback",
          span,
          details);
    const auto id =
        fmt::format("{}.{}.integers.{}.{}", step_.step, of_.rank, readback.from, readback.to);
    arrow(true, "readback", "integers", id, span.start, kReadback);
    arrow(false, "readback", "integers", id, span.end, kCompute);
  }

  void replay(std::string_view name, int slot, const Span& span) {
    Json details;
    details.add("step", step_.step).add("slot", slot);
    slice(kGraph, name, "replay", span, details);
  }

  void memory(double at, const std::array<i64, kCategories>& in_use) {
    Json bytes;
    for (int c = 0; c < kCategories; ++c) {
      bytes.add(category_name(static_cast<Category>(c)), in_use[static_cast<std::size_t>(c)]);
    }
    push(Json().add("ph", "C").add("name", "memory").add("ts", micros(at)).add("args", bytes),
         kCompute);
  }

  std::string take() {
    const auto used = used_;
    const std::string all = std::exchange(text_, {});
    name("process_name", kCompute, of_.name);
    for (std::size_t track = 0; track < kTracks.size(); ++track) {
      if (used[track]) name("thread_name", static_cast<Track>(track), kTracks[track]);
    }
    return text_ + (all.empty() ? "" : ",\n") + all;
  }

 private:
  const PlanAction& action_at(std::size_t index) const { return plan_.actions[index]; }
  const PhaseInfo& phase_of(const PlanAction& action) const {
    return plan_.phases[static_cast<std::size_t>(action.phase)];
  }
  std::string text(int action) const {
    return plan_.text(action_at(static_cast<std::size_t>(action)));
  }
  std::string name_of(const PlanAction& action) const {
    std::string name(action_name(action.kind));
    return action.phase < 0 ? name : name + ' ' + phase_of(action).scope;
  }

  Json details_of(std::size_t index) const {
    const PlanAction& action = action_at(index);
    Json details;
    details.add("step", step_.step).add("action", static_cast<i64>(index));
    if (action.microbatch >= 0) {
      details.add("microbatch", action.microbatch).add("chunk", action.chunk);
    }
    if (action.phase < 0) return details;
    const PhaseInfo& phase = phase_of(action);
    if (phase.layer >= 0) details.add("layer", phase.layer);
    return std::move(details.add("scope", phase.scope));
  }

  void slice(Track track,
             std::string_view name,
             std::string_view category,
             const Span& span,
             const Json& details) {
    push(Json()
             .add("ph", "X")
             .add("name", name)
             .add("cat", category)
             .add("ts", micros(span.start))
             .add("dur", micros(span.end) - micros(span.start))
             .add("args", details),
         track);
  }

  void arrow(bool begins,
             std::string_view category,
             std::string_view name,
             const std::string& id,
             double at,
             Track track) {
    Json end;
    end.add("ph", begins ? "s" : "f");
    if (!begins) end.add("bp", "e");
    push(end.add("cat", category).add("name", name).add("id", id).add("ts", micros(at)), track);
  }

  // An arrow begins where the message is posted and ends at its reader.
  void message_arrow(const PlanAction::Message& message, bool sent, double at, Track track) {
    const int from = sent ? of_.stage_of_rank : message.peer;
    const int to = sent ? message.peer : of_.stage_of_rank;
    const std::string_view what = message.forward ? "F" : "B";
    arrow(sent,
          "message",
          fmt::format("{} mb{} stage{}", what, message.microbatch, message.stage),
          fmt::format("{}.{}.{}.{}.{}.{}.{}",
                      step_.step,
                      of_.pipeline,
                      from,
                      to,
                      what,
                      message.microbatch,
                      message.stage),
          at,
          track);
  }

  void name(std::string_view what, Track track, std::string_view name) {
    push(Json().add("ph", "M").add("name", what).add("args", Json().add("name", name)), track);
  }

  void push(Json event, Track track) {
    used_[track] = true;
    if (!text_.empty()) text_ += ",\n";
    text_ += event.add("pid", of_.rank).add("tid", static_cast<int>(track)).text();
  }

  const TracedRank& of_;
  const Plan& plan_;
  const TracedStep& step_;
  const TracedDetails& details_;
  std::array<bool, kTracks.size()> used_ = {};
  std::string text_;
};

}  // namespace

std::string trace_events(const TracedRank& of,
                         const Plan& plan,
                         const TracedStep& step,
                         const TracedDetails& details) {
  const std::size_t count = plan.actions.size();
  const bool whole = step.times.empty() && step.replay;
  require((whole || step.times.size() == count) &&
              (step.memory.empty() || step.memory.size() == step.times.size()),
          "a trace of {} times and {} memories for the {} actions of a plan",
          step.times.size(),
          step.memory.size(),
          count);
  Events events(of, plan, step, details);
  std::vector<bool> arrived(count);
  for (std::size_t i = 0; i < step.times.size(); ++i) {
    events.action(i);
    events.under_way(i);
    for (const int before : plan.actions[i].after) {
      const auto posted = static_cast<std::size_t>(before);
      events.received(i, plan.actions[posted]);
      if (!arrived[posted]) events.bucket_under_way(posted, i);
      arrived[posted] = true;
    }
    if (!step.memory.empty()) events.memory(step.times[i].end, step.memory[i]);
  }
  if (!step.times.empty()) {
    for (const TracedReadback& readback : details.readbacks) events.readback(readback);
    for (const TracedReplay& replay : details.replays) {
      const ActionTimes& times = step.times.at(static_cast<std::size_t>(replay.action));
      events.replay(replay.name, replay.slot, {times.start, times.end});
    }
  }
  if (step.replay) events.replay("whole step", 0, *step.replay);
  return events.take();
}

std::string trace_file(std::span<const std::string> events) {
  std::string text = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (i > 0) text += ",\n";
    text += events[i];
  }
  return text + "\n]}\n";
}

}  // namespace tessera
