#include "kernel/config/hardware.hpp"

#include <algorithm>
#include <memory>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "kernel/config/config.hpp"
#include "tessera/bounds.hpp"
#include "tessera/error.hpp"
#include "tessera/io/suggest.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

namespace {

void refuse_unknown(const Config& config,
                    const std::string& table,
                    const std::vector<FieldSpec>& fields,
                    const std::set<std::string>& tables = {}) {
  std::vector<std::string> known(tables.begin(), tables.end());
  for (const FieldSpec& field : fields) known.push_back(field.name);
  for (const std::string& key : config.tree().children(table)) {
    if (std::ranges::find(known, key) != known.end()) continue;
    const Entry* entry = config.tree().find(join_path(table, key));
    const auto near = nearest(key, known);
    fail_config("{}: {}unknown key \"{}\"{}",
                entry->key.text(),
                table.empty() ? "" : fmt::format("[{}] ", table),
                key,
                near ? fmt::format(": did you mean \"{}\"?", *near) : "");
  }
}

// Bounds that no hardware comes near: within them every predicted time is a number.
constexpr double kLeastPerSecond = 1, kMostPerSecond = 1e24;  // FLOPs, bytes
constexpr double kMostLatency = 3600;
constexpr double kMostCapacity = 1e18;

constexpr std::pair<std::string_view, double PeakTable::*> kPeaks[] = {{"fp64", &PeakTable::fp64},
                                                                       {"fp32", &PeakTable::fp32},
                                                                       {"tf32", &PeakTable::tf32},
                                                                       {"fp16", &PeakTable::fp16},
                                                                       {"bf16", &PeakTable::bf16}};

template <class T>
void add_bandwidth(Schema<T>& s, double T::*member, std::string_view doc) {
  s.field("bandwidth", member, doc).at_least(kLeastPerSecond).at_most(kMostPerSecond);
}

template <class T>
void add_share(Schema<T>& s, double T::*member, std::string_view doc) {
  s.field("efficiency", member, doc).at_least(1e-6).at_most(1);
}

template <class T>
void read_table(const Config& config, const std::string& path, T& table) {
  const std::vector<FieldSpec> fields = fields_of<T>();
  refuse_unknown(config, path, fields);
  read_fields(fields, *config.node(path), {}, &table);
}

}  // namespace

void PeakTable::describe(Schema<PeakTable>& s) {
  for (const auto& [key, member] : kPeaks) {
    const std::string doc = fmt::format("FLOP/s of matrix products in {}; 0: none", key);
    s.field(key, member, doc).at_least(0).at_most(kMostPerSecond);
  }
  add_share(s, &PeakTable::efficiency, "share of the peak that products reach");
}

void MemoryTable::describe(Schema<MemoryTable>& s) {
  add_bandwidth(s, &MemoryTable::bandwidth, "bytes a second of one rank");
  add_share(s, &MemoryTable::efficiency, "share of it that operations reach");
  s.field("capacity",
          &MemoryTable::capacity,
          "bytes of one rank's device, or of a host where `shared`; 0: unknown")
      .at_least(0)
      .at_most(kMostCapacity);
  s.field("shared", &MemoryTable::shared, "ranks compute in their host's memory");
}

void LinkTable::describe(Schema<LinkTable>& s) {
  add_bandwidth(s, &LinkTable::bandwidth, "bytes a second in one direction");
  add_share(s, &LinkTable::efficiency, "share of it that collectives reach");
  s.field("latency", &LinkTable::latency, "seconds for the first byte")
      .at_least(0)
      .at_most(kMostLatency);
}

void Hardware::describe(Schema<Hardware>& s) {
  s.field("name", &Hardware::name, "for people");
  s.field("ranks_per_host", &Hardware::ranks_per_host, "ranks that one host holds")
      .at_least(1)
      .at_most(kMostRanks);
  s.field("launch_latency", &Hardware::launch_latency, "seconds that each operation costs")
      .at_least(0)
      .at_most(kMostLatency);
  s.field("graph_latency",
          &Hardware::graph_latency,
          "seconds that each replay of a graph costs, in place of its operations' latencies")
      .at_least(0)
      .at_most(kMostLatency);
  s.field(
       "fp32_timed_as", &Hardware::fp32_timed_as, "time fp32 tensors as if they were of this type")
      .one_of({"", "fp16", "bf16"});
}

Hardware Hardware::load(const std::string& file) {
  const Config config = Config::load({file});
  Hardware hardware;
  hardware.table = file;
  const std::vector<FieldSpec> fields = fields_of<Hardware>();
  refuse_unknown(config, "", fields, {"peak", "memory", "inside", "between"});
  read_fields(fields, *config.node(""), {}, &hardware);
  read_table(config, "peak", hardware.peak);
  for (const auto& [key, member] : kPeaks) {
    if (config.tree().find(fmt::format("peak.{}", key)) == nullptr) hardware.peak.*member = 0;
  }
  read_table(config, "memory", hardware.memory);
  read_table(config, "inside", hardware.inside);
  read_table(config, "between", hardware.between);
  return hardware;
}

DType Hardware::timed(DType dtype) const {
  if (dtype != DType::fp32 || fp32_timed_as.empty()) return dtype;
  return fp32_timed_as == "fp16" ? DType::fp16 : DType::bf16;
}

double Hardware::peak_rate(DType dtype, bool tf32) const {
  const DType type = timed(dtype);
  const bool rounds = tf32 && type == DType::fp32;
  const double rates[] = {peak.fp64, rounds ? peak.tf32 : peak.fp32, peak.fp16, peak.bf16};
  const double best = type <= DType::bf16 ? rates[static_cast<int>(type)] : 0;
  if (best < kLeastPerSecond) {
    const std::string_view key = rounds ? "tf32" : dtype_name(type);
    fail_config("{}: [peak] {} is {}: the table has no rate of {} for products in {}",
                written_path(table),
                key,
                best,
                quote(name),
                key);
  }
  return best;
}

double Hardware::timed_bytes(DType dtype, i64 bytes) const {
  return static_cast<double>(bytes) * static_cast<double>(dtype_size(timed(dtype))) /
         static_cast<double>(dtype_size(dtype));
}

bool Hardware::within_host(std::span<const i64> members) const {
  return std::ranges::all_of(members, [&](i64 rank) { return host(rank) == host(members[0]); });
}

LinkTable Hardware::ring(std::span<const i64> members) const {
  if (within_host(members)) return inside;
  // The ring enters and leaves each host once, and as many rings run at once as a host has members.
  const auto here =
      std::ranges::count_if(members, [&](i64 rank) { return host(rank) == host(members[0]); });
  const double rings = static_cast<double>(ranks_per_host) / static_cast<double>(here);
  LinkTable link = between;
  link.bandwidth = std::min(between.bandwidth * between.efficiency / rings,
                            inside.bandwidth * inside.efficiency);
  link.efficiency = 1;
  return link;
}

}  // namespace tessera
