// Hardware tables from measurements that are known; and a rank that fails while others measure.
#include "kernel/planner/calibrate.hpp"

#include <gmock/gmock.h>

#include <atomic>

#include "kernel/planner/collective_seconds.hpp"
#include "tessera/device/core_ops.hpp"
#include "tessera/device/host_device.hpp"
#include "tessera/error.hpp"
#include "tessera/plugin.hpp"

namespace tessera {
namespace calibrate_test {

constexpr double kBandwidth = 3e9, kLatency = 2e-6;

// What collective_seconds() says of `bytes` among all ranks of one host.
double seconds_of(CollectiveKind kind, i64 bytes, int ranks) {
  Hardware hardware;
  hardware.ranks_per_host = ranks;
  hardware.inside = {kBandwidth, 1, kLatency};
  std::vector<i64> members;
  for (i64 rank = 0; rank < ranks; ++rank) members.push_back(rank);
  const auto tensor = [](i64 size) {
    static char none = 0;
    TensorArg arg;
    arg.address = &none;
    arg.dtype = DType::u8;
    arg.rank = 1;
    arg.shape[0] = size;
    return arg;
  };
  Collective collective;
  collective.kind = kind;
  const bool gathers = kind == CollectiveKind::all_gather;
  collective.input = tensor(gathers ? bytes / ranks : bytes);
  for (int peer = 0; kind == CollectiveKind::all_to_all && peer < ranks; ++peer) {
    collective.sends.push_back({peer, tensor(bytes / ranks)});
    collective.receives.push_back({peer, tensor(bytes / ranks)});
  }
  return collective_seconds(hardware, members, 0, collective);
}

// The planner's own times, taken for measured ones, give back the link that they are of.
TEST(CalibratedLinks, AreThoseOfWhichThePlannersTimesAre) {
  for (const CollectiveKind kind : {CollectiveKind::all_reduce,
                                    CollectiveKind::all_gather,
                                    CollectiveKind::reduce_scatter,
                                    CollectiveKind::all_to_all}) {
    for (const int ranks : {2, 3, 4, 8, 16}) {
      Calibration measured;
      measured.ranks = ranks;
      measured.moved = {{"copy", 1e9}};
      for (const i64 shares : {1, 1 << 20}) {
        const i64 bytes = shares * ranks;
        measured.collectives.push_back({"shm", kind, bytes, seconds_of(kind, bytes, ranks)});
      }
      fill_hardware(measured, "shm", "shm");
      const LinkTable& link = measured.hardware.inside;
      EXPECT_NEAR(link.bandwidth, kBandwidth, 0.01 * kBandwidth)
          << collective_name(kind) << " of " << ranks << " ranks";
      EXPECT_NEAR(link.latency, kLatency, 0.01 * kLatency)
          << collective_name(kind) << " of " << ranks << " ranks";
    }
  }
}

std::atomic<int> products = 0;

// Rank 1 has none.
class OneDevice : public HostDevice {
 public:
  using Config = NoConfig;
  OneDevice(const Config&, const DeviceArguments& arguments)
      : HostDevice("test_one",
                   arguments,
                   {make_kernel<MatmulArgs>([](const MatmulArgs&) { ++products; })}) {
    require(arguments.local_rank == 0, "there is one device");
  }
};

// A measurement that is one rank's only means nothing, and in a collective it would not end.
TEST(Calibrate, MeasuresNothingOnceARankHasFailed) {
  PluginHost host;
  host.add_builtin([](Registrar& registrar) {
    registrar.add<Device, OneDevice>("test_one", "A device for one rank.");
  });
  CalibrateArguments arguments;
  arguments.plugins = &host;
  arguments.device = "test_one";
  arguments.within = arguments.between = "no communicator is made";
  arguments.ranks = 1;
  EXPECT_THAT([&] { calibrate(arguments); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("has no operation \"add\"")));
  EXPECT_GT(products, 0);
  products = 0;
  arguments.ranks = 2;
  EXPECT_THAT([&] { calibrate(arguments); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("there is one device")));
  EXPECT_EQ(products, 0);
}

}  // namespace calibrate_test
}  // namespace tessera
