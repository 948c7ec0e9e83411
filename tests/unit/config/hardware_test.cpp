#include "kernel/config/hardware.hpp"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <numeric>

#include "tessera/error.hpp"
#include "tests/common/error_of.hpp"

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

TEST(HardwareTables, AreRead) {
  const Hardware v100 = Hardware::load(kTables + "v100-dgx2.toml");
  EXPECT_EQ(v100.ranks_per_host, 16);
  EXPECT_EQ(v100.peak.fp16, 125e12);
  EXPECT_EQ(v100.between.latency, 10e-6);
  const Hardware h100 = Hardware::load(kTables + "h100-dgx.toml");
  EXPECT_EQ(h100.ranks_per_host, 8);
  EXPECT_EQ(h100.peak.bf16, 989e12);
}

// A run on the device `cuda` computes in each of these types.
TEST(HardwareTables, OfGpusHaveEachPeakThatARunMayNeed) {
  struct Gpu {
    const char* file;
    double bf16, tf32, bandwidth, capacity;
  };
  for (const Gpu& gpu : {Gpu{"a100", 312e12, 156e12, 2.039e12, 80e9},
                         Gpu{"h100", 989e12, 494e12, 3.35e12, 85.5e9},
                         Gpu{"h200", 989e12, 494e12, 4.8e12, 141e9}}) {
    const Hardware table = Hardware::load(fmt::format("{}{}-dgx.toml", kTables, gpu.file));
    for (const DType dtype : {DType::fp64, DType::fp32, DType::fp16, DType::bf16}) {
      EXPECT_GE(table.peak_rate(dtype), 19.5e12) << gpu.file;
    }
    EXPECT_EQ(table.peak_rate(DType::bf16), gpu.bf16);
    EXPECT_EQ(table.peak_rate(DType::fp32, true), gpu.tf32);
    EXPECT_EQ(table.memory.bandwidth, gpu.bandwidth);
    EXPECT_EQ(table.memory.capacity, gpu.capacity);
    EXPECT_FALSE(table.memory.shared);
    EXPECT_EQ(table.ranks_per_host, 8);
  }
}

// A GPU's table without bf16 must not have that of a CPU.
TEST(HardwareTables, HaveOnlyThePeaksThatTheyWrite) {
  const TableFile file("[peak]\nfp32 = 1e12\n");
  const Hardware hardware = Hardware::load(file.path());
  EXPECT_EQ(hardware.peak_rate(DType::fp32), 1e12);
  EXPECT_THAT(
      [&] { hardware.peak_rate(DType::bf16); },
      ThrowsMessage<ConfigError>(file.path() + ": [peak] bf16 is 0: the table has no rate of "
                                               "\"a small CPU host\" for products in bf16"));
  EXPECT_THAT([&] { hardware.peak_rate(DType::fp32, true); },
              ThrowsMessage<ConfigError>(HasSubstr(": [peak] tf32 is 0: ")));
  EXPECT_EQ(Hardware().peak_rate(DType::bf16), 220e9);
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
    return testing::error_of<ConfigError>([&] {
      const Hardware hardware = Hardware::load(file.path());
      hardware.rate(DType::fp32);
    });
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
  EXPECT_EQ(problem("[memory]\nbandwidth = 1e12\n[peak]\nfp32 = 1e12\n"), "");
}

TEST(HardwareTables, KeysOutsideOfTablesAreNamedAlone) {
  const TableFile file("ranks_per_host = 0\n");
  EXPECT_THAT([&] { Hardware::load(file.path()); },
              ThrowsMessage<ConfigError>(HasSubstr(":1:18: ranks_per_host: expected ")));
}

TEST(HardwareRates, FollowTheTypeThatIsTimed) {
  Hardware hardware;
  hardware.peak = {
      .fp64 = 1e9, .fp32 = 2e9, .fp16 = 16e9, .bf16 = 0, .tf32 = 8e9, .efficiency = 0.5};
  EXPECT_EQ(hardware.rate(DType::fp32), 1e9);
  EXPECT_EQ(hardware.peak_rate(DType::fp32), 2e9);
  EXPECT_EQ(hardware.timed_bytes(DType::fp32, 8), 8);
  EXPECT_EQ(hardware.rate(DType::fp32, true), 4e9);
  EXPECT_EQ(hardware.rate(DType::fp64, true), 0.5e9) << "only factors of fp32 are rounded";
  hardware.fp32_timed_as = "fp16";
  EXPECT_EQ(hardware.rate(DType::fp32), 8e9);
  EXPECT_EQ(hardware.rate(DType::fp32, true), 8e9);
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

}  // namespace hardware_test
}  // namespace tessera
