#include "kernel/schedule/trace.hpp"

#include <cmath>

#include "tessera/error.hpp"
#include "tessera/json.hpp"

namespace tessera {

namespace {

constexpr std::string_view kLanes[] = {"compute", "exchange", "collective"};

int lane_of(PlanAction::Kind kind) {
  switch (kind) {
    case PlanAction::Exchange:
      return 1;
    case PlanAction::Gather:
    case PlanAction::Prepare:
    case PlanAction::Reduce:
      return 2;
    default:
      return 0;
  }
}

// Microseconds, as the format wants, to a nanosecond.
double micros(double seconds) { return std::round(seconds * 1e9) / 1e3; }

class Events {
 public:
  Events(const TracedRank& of, const Plan& plan) : of_(of), plan_(plan) {}

  void lanes() {
    push(
        Json().add("ph", "M").add("name", "process_name").add("args", Json().add("name", of_.name)),
        0);
    for (int lane = 0; lane < static_cast<int>(std::size(kLanes)); ++lane) {
      push(Json()
               .add("ph", "M")
               .add("name", "thread_name")
               .add("args", Json().add("name", kLanes[lane])),
           lane);
    }
  }

  void slice(std::size_t index, const ActionTimes& times) {
    const PlanAction& action = plan_.actions[index];
    Json details;
    details.add("step", of_.step).add("action", static_cast<i64>(index));
    if (action.microbatch >= 0) {
      details.add("microbatch", action.microbatch).add("chunk", action.chunk);
    }
    std::string name(action_name(action.kind));
    if (action.phase >= 0) {
      const PhaseInfo& phase = plan_.phases[static_cast<std::size_t>(action.phase)];
      if (phase.layer >= 0) details.add("layer", phase.layer);
      details.add("scope", phase.scope);
      name += ' ' + phase.scope;
    }
    if (action.bucket >= 0) details.add("bucket", action.bucket);
    details.add("waits_for", Json::array(action.after, [&](int before) {
                  return Json(plan_.text(plan_.actions[static_cast<std::size_t>(before)]));
                }));
    if (times.start > times.begin) details.add("waited_us", micros(times.start - times.begin));
    push(Json()
             .add("ph", "X")
             .add("name", name)
             .add("cat", action_name(action.kind))
             .add("ts", micros(times.start))
             .add("dur", micros(times.end) - micros(times.start))
             .add("args", details),
         lane_of(action.kind));
  }

  // An arrow begins where the message is posted and ends at its reader.
  void arrow(const PlanAction::Message& message, bool sent, double at, PlanAction::Kind kind) {
    const int from = sent ? of_.stage_of_rank : message.peer;
    const int to = sent ? message.peer : of_.stage_of_rank;
    const std::string_view what = message.forward ? "F" : "B";
    Json end;
    end.add("ph", sent ? "s" : "f");
    if (!sent) end.add("bp", "e");
    push(end.add("cat", "message")
             .add("name", fmt::format("{} mb{} stage{}", what, message.microbatch, message.stage))
             .add("id",
                  fmt::format("{}.{}.{}.{}.{}.{}.{}",
                              of_.step,
                              of_.pipeline,
                              from,
                              to,
                              what,
                              message.microbatch,
                              message.stage))
             .add("ts", micros(at)),
         lane_of(kind));
  }

  void memory(double at, const MemoryStats& stats) {
    Json bytes;
    for (int c = 0; c < kCategories; ++c) {
      bytes.add(category_name(static_cast<Category>(c)), stats.bytes[static_cast<std::size_t>(c)]);
    }
    push(Json().add("ph", "C").add("name", "memory").add("ts", micros(at)).add("args", bytes), 0);
  }

  std::string take() { return std::move(text_); }

 private:
  void push(Json event, int lane) {
    if (!text_.empty()) text_ += ",\n";
    text_ += event.add("pid", of_.rank).add("tid", lane).text();
  }

  const TracedRank& of_;
  const Plan& plan_;
  std::string text_;
};

}  // namespace

std::string trace_events(const TracedRank& of,
                         const Plan& plan,
                         std::span<const ActionTimes> times,
                         std::span<const MemoryStats> memory) {
  require(times.size() == plan.actions.size() && (memory.empty() || memory.size() == times.size()),
          "a trace of {} times and {} memories for the {} actions of a plan",
          times.size(),
          memory.size(),
          plan.actions.size());
  Events events(of, plan);
  events.lanes();
  std::vector<bool> arrived(plan.actions.size());
  for (std::size_t i = 0; i < times.size(); ++i) {
    const PlanAction& action = plan.actions[i];
    events.slice(i, times[i]);
    for (const PlanAction::Message& message : action.sends) {
      events.arrow(message, true, times[i].start, action.kind);
    }
    for (const int before : action.after) {
      const auto exchange = static_cast<std::size_t>(before);
      if (arrived[exchange]) continue;
      arrived[exchange] = true;
      for (const PlanAction::Message& message : plan.actions[exchange].receives) {
        events.arrow(message, false, times[i].start, action.kind);
      }
    }
    if (!memory.empty()) events.memory(times[i].end, memory[i]);
  }
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
