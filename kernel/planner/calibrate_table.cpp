// The hardware table that measurements make.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>

#include "kernel/planner/calibrate.hpp"
#include "sdk/src/shared/control_group.hpp"
#include "tessera/base/value.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

namespace {

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// The best product is the peak; what the middle one reaches of it is the efficiency.
void fill_peaks(const Calibration& measured, Hardware& hardware) {
  PeakTable& peak = hardware.peak;
  double* const rates[] = {&peak.fp64, &peak.fp32, &peak.fp16, &peak.bf16};
  std::map<DType, double> efficiency;
  std::optional<DType> fastest;
  for (const DType dtype : {DType::fp64, DType::fp32, DType::fp16, DType::bf16}) {
    std::vector<double> of_type;
    for (const Calibration::Product& product : measured.products) {
      if (product.dtype == dtype) of_type.push_back(product.flops_per_second);
    }
    double& rate = *rates[static_cast<int>(dtype)];
    rate = of_type.empty() ? 0 : std::ranges::max(of_type);
    if (of_type.empty()) continue;
    efficiency[dtype] = median(of_type) / rate;
    if (!fastest || rate > *rates[static_cast<int>(*fastest)]) fastest = dtype;
  }
  // One for all types: that of fp32 on a CPU, where most train in it, else of the fastest type.
  const auto of = hardware.memory.shared ? std::optional(DType::fp32) : fastest;
  if (of && efficiency.contains(*of)) peak.efficiency = efficiency[*of];
}

// Bytes of memory of this host, or of the container that this process is in.
double host_memory() {
  double bytes =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
  for (const std::filesystem::path& group : control_groups("memory")) {
    for (const char* file : {"memory.max", "memory.limit_in_bytes"}) {
      double limit = 0;
      if (std::ifstream(group / file) >> limit && limit > 0) bytes = std::min(bytes, limit);
    }
  }
  return bytes;
}

void fill_memory(const Calibration& measured, Hardware& hardware) {
  std::vector<double> rates;
  for (const Calibration::Moved& moved : measured.moved) rates.push_back(moved.bytes_per_second);
  hardware.memory.bandwidth = std::ranges::max(rates);
  hardware.memory.efficiency = median(rates) / hardware.memory.bandwidth;
  if (hardware.memory.shared) hardware.memory.capacity = host_memory();
}

// The link with which collective_seconds() gives the measured times: the smallest collective is
// latency, what the largest takes beyond it are its bytes. `of_kind` is by size.
LinkTable link_of(const std::vector<Calibration::Collective>& of_kind, int ranks) {
  const Calibration::Collective& least = of_kind.front();
  const Calibration::Collective& most = of_kind.back();
  // A ring's steps, in each of them a share of the bytes.
  double steps = ranks - 1, latencies = steps, sent = static_cast<double>(most.bytes) / ranks;
  if (most.kind == CollectiveKind::all_reduce) {
    steps *= 2;
    latencies = std::min(steps, 2 * std::ceil(std::log2(ranks)));  // little goes along a tree
    sent *= steps;
  } else {
    sent *= steps;
    if (most.kind == CollectiveKind::all_to_all) steps = latencies = 1;  // all parts at once
  }
  LinkTable link{.efficiency = 1, .latency = least.seconds / latencies};
  const double moving = std::max(most.seconds - steps * link.latency, most.seconds / 100);
  link.bandwidth = sent / moving;
  return link;
}

// One link for all kinds: the median of the bandwidths and of the latencies that each gives.
LinkTable link_of(const Calibration& measured, const std::string& communicator) {
  std::map<CollectiveKind, std::vector<Calibration::Collective>> kinds;
  for (const Calibration::Collective& collective : measured.collectives) {
    if (collective.communicator == communicator) kinds[collective.kind].push_back(collective);
  }
  std::vector<double> bandwidths, latencies;
  for (const auto& [kind, of_kind] : kinds) {
    const LinkTable link = link_of(of_kind, measured.ranks);
    bandwidths.push_back(link.bandwidth);
    latencies.push_back(link.latency);
  }
  return {.bandwidth = median(bandwidths), .efficiency = 1, .latency = median(latencies)};
}

}  // namespace

void fill_hardware(Calibration& measured, const std::string& within, const std::string& between) {
  fill_peaks(measured, measured.hardware);
  fill_memory(measured, measured.hardware);
  measured.hardware.graph_latency = measured.graph.replayed;
  if (measured.collectives.empty()) return;
  measured.hardware.inside = link_of(measured, within);
  measured.hardware.between = link_of(measured, between);
}

std::string hardware_toml(const Calibration& calibration) {
  const Hardware& h = calibration.hardware;
  std::string text = fmt::format(
      "# Measured by `tessera calibrate` on {} rank{} of {} thread{}, all at once.\n# {}\n"
      "name = {}\nranks_per_host = {}\nlaunch_latency = {:.3g}\n"
      "# {} operations on few elements: {:.3g} us one by one, {:.3g} us as a graph\n"
      "graph_latency = {:.3g}\n\n[peak]\n",
      calibration.ranks,
      calibration.ranks == 1 ? "" : "s",
      calibration.threads,
      calibration.threads == 1 ? "" : "s",
      written_plain(calibration.device, std::string::npos),
      Value(h.name).text(),
      h.ranks_per_host,
      h.launch_latency,
      calibration.graph.launches,
      calibration.graph.eager * 1e6,
      calibration.graph.replayed * 1e6,
      h.graph_latency);
  for (const Calibration::Product& p : calibration.products) {
    text += fmt::format("# {} [{}, {}] x [{}, {}]: {:.4g} GFLOP/s\n",
                        dtype_name(p.dtype),
                        p.m,
                        p.k,
                        p.k,
                        p.n,
                        p.flops_per_second / 1e9);
  }
  text += fmt::format(
      "fp64 = {:.4g}\nfp32 = {:.4g}\nfp16 = {:.4g}\nbf16 = {:.4g}\nefficiency = {:.3f}\n\n"
      "[memory]\n",
      h.peak.fp64,
      h.peak.fp32,
      h.peak.fp16,
      h.peak.bf16,
      h.peak.efficiency);
  for (const Calibration::Moved& moved : calibration.moved) {
    text += fmt::format("# {}: {:.4g} GB/s\n", moved.operation, moved.bytes_per_second / 1e9);
  }
  text += fmt::format(
      "bandwidth = {:.4g}\nefficiency = {:.3f}\n", h.memory.bandwidth, h.memory.efficiency);
  if (h.memory.capacity > 0) text += fmt::format("capacity = {:.0f}\n", h.memory.capacity);
  text += fmt::format("shared = {}\n", h.memory.shared);
  const auto link = [&](std::string_view table, const LinkTable& of, std::string_view what) {
    text += fmt::format("\n[{}]  # {}\nbandwidth = {:.4g}\nefficiency = {:.3f}\nlatency = {:.3g}\n",
                        table,
                        what,
                        of.bandwidth,
                        of.efficiency,
                        of.latency);
  };
  const bool linked = !calibration.collectives.empty();
  for (const Calibration::Collective& c : calibration.collectives) {
    text += fmt::format("{}# {} of {} KiB by {}: {:.4g} us\n",
                        &c == calibration.collectives.data() ? "\n" : "",
                        collective_name(c.kind),
                        c.bytes >> 10,
                        c.communicator,
                        c.seconds * 1e6);
  }
  if (!linked) {
    return text +
           "\n# One rank measures no links: [inside] and [between] are those of a small host until "
           "they\n# are written here, as in configs/hardware/h100-dgx.toml.\n";
  }
  link("inside", h.inside, calibration.collectives.front().communicator);
  link("between",
       h.between,
       calibration.collectives.back().communicator +
           " within this host: replace by what joins the hosts");
  return text;
}

}  // namespace tessera
