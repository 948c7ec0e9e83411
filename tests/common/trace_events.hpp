#pragma once
// What Perfetto and Chrome's tracing page want of a trace: for tests of what writes one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace tessera::testing {

using TraceEvents = std::vector<nlohmann::json>;

inline TraceEvents events_of_trace(const std::string& file) {
  return nlohmann::json::parse(file).at("traceEvents").get<TraceEvents>();
}

inline TraceEvents of_phase(const TraceEvents& events, const std::string& ph) {
  TraceEvents found;
  std::ranges::copy_if(
      events, std::back_inserter(found), [&](const auto& event) { return event.at("ph") == ph; });
  return found;
}

using TraceTrack = std::pair<int, int>;  // process, thread
inline TraceTrack track_of(const nlohmann::json& event) {
  return {event.at("pid").get<int>(), event.at("tid").get<int>()};
}

/// Names of the tracks by process and thread. Each process has a name.
inline std::map<TraceTrack, std::string> track_names(const TraceEvents& events) {
  std::map<TraceTrack, std::string> names;
  std::set<int> processes;
  for (const auto& event : of_phase(events, "M")) {
    const std::string name = event.at("args").at("name");
    EXPECT_FALSE(name.empty());
    if (event.at("name") == "process_name") processes.insert(event.at("pid").get<int>());
    if (event.at("name") != "thread_name") continue;
    const auto [at, added] = names.emplace(track_of(event), name);
    EXPECT_TRUE(added || at->second == name) << event;
  }
  for (const auto& event : events) {
    EXPECT_TRUE(processes.contains(event.at("pid").get<int>())) << event;
  }
  return names;
}

/// Slices of one category, or of all, on tracks of this name.
inline TraceEvents slices_on(const TraceEvents& events, const std::string& track) {
  const auto names = track_names(events);
  TraceEvents found;
  for (const auto& slice : of_phase(events, "X")) {
    if (names.at(track_of(slice)) == track) found.push_back(slice);
  }
  return found;
}

/// What a phase has under way ends where the action that reads it begins its work. Returns these
/// actions by the track of what they read: those that have waited tell for how long.
inline std::map<std::string, TraceEvents> expect_arrivals(const TraceEvents& events) {
  constexpr double kRounding = 2e-3;
  std::map<std::string, TraceEvents> readers;
  for (const std::string track : {"comm forward", "comm backward"}) {
    for (const auto& rows : slices_on(events, track)) {
      if (!rows.at("args").contains("read_by")) continue;
      const int reader = rows.at("args").at("reader"), step = rows.at("args").at("step");
      const auto compute = slices_on(events, "compute");
      const auto found = std::ranges::find_if(compute, [&](const auto& slice) {
        return slice.at("pid") == rows.at("pid") && slice.at("args").at("action") == reader &&
               slice.at("args").at("step") == step;
      });
      if (found == compute.end()) {
        ADD_FAILURE() << "nobody reads " << rows;
        continue;
      }
      const double end = rows.at("ts").get<double>() + rows.at("dur").get<double>();
      EXPECT_NEAR(end, found->at("ts").get<double>(), kRounding) << rows;
      readers[track].push_back(*found);
    }
  }
  return readers;
}

/// Slices are on named tracks, and of two on one track one is within the other or they are apart.
/// Arrows begin and end once, within slices, not more than `clock_us` before they began. All times
/// are numbers, so small that a double tells nanoseconds.
inline void expect_valid_trace(const TraceEvents& events, double clock_us = 0) {
  constexpr double kRounding = 2e-3, kLatest = 1e12;
  const auto names = track_names(events);
  std::map<TraceTrack, std::vector<std::pair<double, double>>> slices;  // start, minus length
  for (const auto& slice : of_phase(events, "X")) {
    const double start = slice.at("ts"), length = slice.at("dur");
    EXPECT_TRUE(std::abs(start) < kLatest && length >= 0) << slice;
    EXPECT_TRUE(names.contains(track_of(slice))) << slice;
    EXPECT_FALSE(slice.at("name").get<std::string>().empty()) << slice;
    EXPECT_TRUE(slice.at("args").is_object()) << slice;
    slices[track_of(slice)].emplace_back(start, -length);
  }
  for (auto& [track, list] : slices) {
    std::ranges::sort(list);
    std::vector<double> open;  // ends of the slices around
    for (const auto& [start, minus] : list) {
      while (!open.empty() && open.back() <= start + kRounding) open.pop_back();
      EXPECT_TRUE(open.empty() || start - minus <= open.back() + kRounding)
          << names.at(track) << " of " << track.first << " at " << start;
      open.push_back(start - minus);
    }
  }
  const auto within = [&](const nlohmann::json& event) {
    const double at = event.at("ts");
    return std::ranges::any_of(slices[track_of(event)], [&](const auto& slice) {
      return at >= slice.first - kRounding && at <= slice.first - slice.second + kRounding;
    });
  };
  std::map<std::string, nlohmann::json> begun;
  for (const auto& begin : of_phase(events, "s")) {
    EXPECT_TRUE(begun.emplace(begin.at("id"), begin).second) << begin;
    EXPECT_TRUE(within(begin)) << begin;
  }
  for (const auto& end : of_phase(events, "f")) {
    const auto from = begun.find(end.at("id"));
    if (from == begun.end()) {
      ADD_FAILURE() << "this arrow never begins: " << end;
      continue;
    }
    EXPECT_EQ(end.at("name"), from->second.at("name"));
    EXPECT_EQ(end.at("cat"), from->second.at("cat"));
    EXPECT_GE(end.at("ts").get<double>(), from->second.at("ts").get<double>() - clock_us) << end;
    EXPECT_TRUE(within(end)) << end;
    begun.erase(from);
  }
  for (const auto& [id, begin] : begun) ADD_FAILURE() << "this arrow never ends: " << begin;
}

}  // namespace tessera::testing
