#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "kernel/plan/report.hpp"
#include "tessera/json_line.hpp"

namespace tessera {

namespace {

std::string text(const std::string& value) { return JsonLine::quoted(value); }
std::string number(double value) {
  return std::isfinite(value) ? fmt::format("{}", value) : "null";
}
std::string number(i64 value) { return fmt::format("{}", value); }

std::string object(const std::vector<std::pair<std::string, std::string>>& fields) {
  std::string out;
  for (const auto& [key, value] : fields) {
    out += fmt::format("{}{}: {}", out.empty() ? "" : ", ", text(key), value);
  }
  return "{" + out + "}";
}

template <class List, class F>
std::string array(const List& list, F&& item) {
  std::vector<std::string> items;
  items.reserve(list.size());
  for (const auto& value : list) items.push_back(item(value));
  return fmt::format("[{}]", fmt::join(items, ", "));
}

std::string groups_json(const Prediction& p) {
  std::vector<std::pair<std::string, std::string>> fields;
  for (const PlannedGroups& groups : p.groups) {
    fields.emplace_back(
        groups.axes,
        object({{"size", number(static_cast<i64>(groups.members[0].size()))},
                {"within_host", groups.within_host ? "true" : "false"},
                {"ranks", array(groups.members, [](const std::vector<i64>& members) {
                   return fmt::format("[{}]", fmt::join(members, ", "));
                 })}}));
  }
  return object(fields);
}

std::string memory_json(const MemoryStats& memory) {
  std::vector<std::pair<std::string, std::string>> fields;
  fields.reserve(kCategories);
  for (int c = 0; c < kCategories; ++c) {
    fields.emplace_back(category_name(static_cast<Category>(c)),
                        number(memory.peak[static_cast<std::size_t>(c)]));
  }
  fields.emplace_back("total", number(memory.total_peak));
  return object(fields);
}

std::string traffic_json(const Traffic& traffic) {
  return object({{"group", text(traffic.axes)},
                 {"size", number(static_cast<i64>(traffic.size))},
                 {"within_host", traffic.within_host ? "true" : "false"},
                 {"kind", text(std::string(collective_name(traffic.kind)))},
                 {"messages", number(traffic.calls)},
                 {"bytes", number(traffic.bytes)}});
}

std::string class_json(const Representative& r) {
  return object({{"rank", number(r.of.first)},
                 {"ranks", number(r.of.ranks)},
                 {"pipeline", number(r.of.pipeline)},
                 {"context", number(r.of.context)},
                 {"layers", array(r.layers, text)},
                 {"parameters", number(r.parameters)},
                 {"peak_memory", memory_json(r.memory)},
                 {"traffic", array(r.traffic, traffic_json)},
                 {"flops", number(r.total.flops)},
                 {"moved_bytes", number(r.total.bytes)},
                 {"launches", number(r.total.launches)},
                 {"collective_seconds", number(r.total.collectives)}});
}

std::string layout_json(const Prediction& p) {
  return object({{"tensor", number(p.layout.tensor)},
                 {"context", number(p.layout.context)},
                 {"pipeline", number(p.layout.pipeline)},
                 {"data", number(p.data)},
                 {"order", text(p.layout.order)}});
}

}  // namespace

std::string report_json(const Prediction& p) {
  return object({{"run", text(p.run)},
                 {"hardware", text(p.hardware.name)},
                 {"world_size", number(p.layout.world)},
                 {"layout", layout_json(p)},
                 {"microbatches", number(p.microbatches)},
                 {"batch", number(p.global)},
                 {"sequence_length", number(p.sequence_length)},
                 {"parameters", number(p.parameters)},
                 {"groups", groups_json(p)},
                 {"ranks", array(p.classes, class_json)},
                 {"flops", number(p.flops)},
                 {"model_flops", number(p.model_flops)},
                 {"schedule", text(p.picture)},
                 {"schedule_bubble", number(p.schedule_bubble)},
                 {"bubble", number(p.bubble)},
                 {"step_seconds", number(p.step_seconds)},
                 {"tokens_per_second", number(p.tokens_per_second())},
                 {"flops_per_second_and_rank", number(p.flops_per_second_and_rank())},
                 {"mfu", number(p.mfu)},
                 {"notes", array(p.notes, text)}});
}

}  // namespace tessera
