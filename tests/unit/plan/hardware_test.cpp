#include "kernel/plan/hardware.hpp"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <numeric>

#include "tessera/error.hpp"

namespace tessera {
namespace hardware_test {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const std::string kTables = TESSERA_SOURCE_DIR "/configs/hardware/";

class TableFile {
 public:
  explicit TableFile(const std::string& text) { std::ofstream(path_) << text; }
  ~TableFile() { std::filesystem::remove(path_); }
  std::string path() const { return path_; }

 private:
  std::filesystem::path path_ =
      std::filesystem::temp_directory_path() /
      fmt::format("tessera_hardware_{}.toml", static_cast<long>(getpid()));
};

std::vector<i64> ranks(i64 first, i64 count, i64 stride = 1) {
  std::vector<i64> members;
  for (i64 i = 0; i < count; ++i) members.push_back(first + i * stride);
  return members;
}

Collective all_reduce(i64 elements) {
  static float none = 0;
  Collective collective;
  collective.kind = CollectiveKind::all_reduce;
  collective.input.address = &none;
  collective.input.dtype = DType::fp32;
  collective.input.rank = 1;
  collective.input.shape[0] = elements;
  return collective;
}

TEST(HardwareTables, AreRead) {
  const Hardware v100 = Hardware::load(kTables + "v100-dgx2.toml");
  EXPECT_EQ(v100.ranks_per_host, 16);
  EXPECT_EQ(v100.peak.fp16, 125e12);
  EXPECT_EQ(v100.between.latency, 10e-6);
  const Hardware h100 = Hardware::load(kTables + "h100-dgx.toml");
  EXPECT_EQ(h100.ranks_per_host, 8);
  EXPECT_EQ(h100.peak.bf16, 989e12);
}

TEST(HardwareTables, TheSmallHostIsTheDefault) {
  const Hardware file = Hardware::load(kTables + "cpu-host.toml"), initial;
  EXPECT_EQ(file.name, initial.name);
  EXPECT_EQ(file.ranks_per_host, initial.ranks_per_host);
  EXPECT_EQ(file.launch_latency, initial.launch_latency);
  EXPECT_EQ(file.graph_latency, initial.graph_latency);
  EXPECT_EQ(file.fp32_timed_as, initial.fp32_timed_as);
  EXPECT_EQ(file.peak.fp64, initial.peak.fp64);
  EXPECT_EQ(file.peak.fp32, initial.peak.fp32);
  EXPECT_EQ(file.peak.efficiency, initial.peak.efficiency);
  EXPECT_EQ(file.memory.bandwidth, initial.memory.bandwidth);
  EXPECT_EQ(file.memory.efficiency, initial.memory.efficiency);
  EXPECT_EQ(file.inside.bandwidth, initial.inside.bandwidth);
  EXPECT_EQ(file.inside.latency, initial.inside.latency);
  EXPECT_EQ(file.between.bandwidth, initial.between.bandwidth);
  EXPECT_EQ(file.between.latency, initial.between.latency);
}

TEST(HardwareTables, SayWhatIsWrongAndWhere) {
  const TableFile unknown("[peak]\nf23 = 1e12\n");
  EXPECT_THAT([&] { Hardware::load(unknown.path()); },
              ThrowsMessage<ConfigError>(
                  unknown.path() + ":2:1: [peak] unknown key \"f23\": did you mean \"fp32\"?"));
  const TableFile negative("[inside]\nlatency = -1.0\n");
  EXPECT_THAT([&] { Hardware::load(negative.path()); },
              ThrowsMessage<ConfigError>(HasSubstr(":2:11: [inside] latency: ")));
  EXPECT_THAT([] { Hardware::load("nowhere.toml"); },
              ThrowsMessage<ConfigError>(HasSubstr("there is no such file")));
}

TEST(HardwareTables, HoldOnlyWhatTimesCanBeComputedFrom) {
  const auto problem = [](const std::string& text) -> std::string {
    const TableFile file(text);
    try {
      const Hardware hardware = Hardware::load(file.path());
      hardware.rate(DType::fp32);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "none";
  };
  for (const std::string key : {"[memory]\nbandwidth",
                                "[inside]\nbandwidth",
                                "[between]\nbandwidth",
                                "[inside]\nlatency",
                                "[peak]\nfp32",
                                "[peak]\nefficiency",
                                "launch_latency",
                                "graph_latency"}) {
    EXPECT_THAT(problem(key + " = inf\n"), HasSubstr("got inf")) << key;
    EXPECT_THAT(problem(key + " = nan\n"), HasSubstr("got nan")) << key;
  }
  for (const std::string key : {"[memory]\nbandwidth",
                                "[inside]\nbandwidth",
                                "[between]\nbandwidth",
                                "[memory]\nefficiency",
                                "[peak]\nefficiency"}) {
    EXPECT_THAT(problem(key + " = 1e-300\n"), HasSubstr("got 1e-300")) << key;
  }
  EXPECT_THAT(problem("[peak]\nfp32 = 1e-300\n"), HasSubstr("[peak] fp32 is 1e-300"));
  EXPECT_EQ(problem("[memory]\nbandwidth = 1e12\n"), "none");
}

TEST(HardwareTables, KeysOutsideOfTablesAreNamedAlone) {
  const TableFile file("ranks_per_host = 0\n");
  EXPECT_THAT([&] { Hardware::load(file.path()); },
              ThrowsMessage<ConfigError>(HasSubstr(":1:18: ranks_per_host: expected ")));
}

TEST(HardwareRates, FollowTheTypeThatIsTimed) {
  Hardware hardware;
  hardware.peak = {.fp64 = 1e9, .fp32 = 2e9, .fp16 = 16e9, .bf16 = 0, .efficiency = 0.5};
  EXPECT_EQ(hardware.rate(DType::fp32), 1e9);
  EXPECT_EQ(hardware.timed_bytes(DType::fp32, 8), 8);
  hardware.fp32_timed_as = "fp16";
  EXPECT_EQ(hardware.rate(DType::fp32), 8e9);
  EXPECT_EQ(hardware.rate(DType::fp64), 0.5e9);
  EXPECT_EQ(hardware.timed_bytes(DType::fp32, 8), 4);
  EXPECT_EQ(hardware.timed_bytes(DType::i64, 8), 8);
  EXPECT_THAT([&] { hardware.rate(DType::bf16); },
              ThrowsMessage<ConfigError>(HasSubstr("[peak] bf16 is 0")));
}

TEST(Links, RanksOfAHostShareWhatJoinsHosts) {
  Hardware hardware;
  hardware.ranks_per_host = 8;
  hardware.inside.bandwidth = 100e9;
  hardware.between.bandwidth = 40e9;
  EXPECT_TRUE(hardware.within_host(ranks(8, 8)));
  EXPECT_FALSE(hardware.within_host(ranks(7, 2)));
  EXPECT_EQ(hardware.ring(ranks(0, 8)).bandwidth, 100e9);
  EXPECT_EQ(hardware.ring(ranks(0, 16)).bandwidth, 40e9);    // one ring
  EXPECT_EQ(hardware.ring(ranks(0, 4, 8)).bandwidth, 5e9);   // eight rings, one a rank
  EXPECT_EQ(hardware.ring(ranks(0, 8, 4)).bandwidth, 10e9);  // four rings of two ranks a host
}

TEST(CollectiveTimes, AreThoseOfARingForMuchAndOfATreeForLittle) {
  Hardware hardware;
  hardware.inside = {1e9, 1, 1e-6};
  const std::vector<i64> eight = ranks(0, 8);
  const double much = collective_seconds(hardware, eight, 0, all_reduce(250'000'000));
  EXPECT_NEAR(much, 2.0 * 7 / 8 + 14e-6, 1e-9);
  EXPECT_NEAR(collective_seconds(hardware, eight, 0, all_reduce(1)), 2 * 3 * (1e-6 + 4e-9), 1e-12);
  Collective gather = all_reduce(250'000);
  gather.kind = CollectiveKind::all_gather;
  EXPECT_NEAR(collective_seconds(hardware, eight, 0, gather), 7 * (1e-6 + 1e-3), 1e-9);
  gather.kind = CollectiveKind::reduce_scatter;
  EXPECT_NEAR(collective_seconds(hardware, eight, 0, gather), 7 * (1e-6 + 1e-3 / 8), 1e-9);
}

// Two hosts of four: 3 MB for the neighbours and 2 MB for the other host, to which all four share
// the way. The slower of both counts.
TEST(CollectiveTimes, OfTransfersWithinHostsAndBetweenThem) {
  Hardware hardware;
  hardware.ranks_per_host = 4;
  hardware.inside = {1e9, 1, 1e-6};
  hardware.between = {8e9, 1, 5e-6};
  const auto seconds = [&](int index, const Collective& exchange) {
    return collective_seconds(hardware, ranks(0, 8), index, exchange);
  };
  Collective exchange;
  exchange.kind = CollectiveKind::exchange;
  const TensorArg megabyte = all_reduce(250'000).input;
  for (int peer = 1; peer <= 5; ++peer) exchange.sends.push_back({peer, megabyte});
  EXPECT_NEAR(seconds(0, exchange), 3e-3 + 1e-6, 1e-9);
  hardware.between.bandwidth = 2e9;
  EXPECT_NEAR(seconds(0, exchange), 2e-3 * 2 + 5e-6, 1e-9);
  exchange.receives.assign(20, {4, megabyte});
  EXPECT_NEAR(seconds(0, exchange), 20e-3 * 2 + 5e-6, 1e-9);
  EXPECT_NEAR(seconds(7, exchange), 20e-3 + 1e-6, 1e-9);
}

}  // namespace hardware_test
}  // namespace tessera
