#include "kernel/train/execution/rate_table.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "kernel/model/host_values.hpp"
#include "tessera/device/host_device.hpp"

namespace tessera {
namespace rate_table_test {

class Numbered final : public LrSchedule {
 public:
  double do_rate(i64 step) const override { return static_cast<double>(step); }
};

// What the device reads at this update.
double rate_at(HostDevice& device, const RateTable& table, i64 update) {
  const std::vector<double> ring = read_values(device, table.tensor());
  return ring[static_cast<std::size_t>(update - 1) % ring.size()];
}

TEST(RateTable, HasTheNextUpdatesOfARunOfAnyLength) {
  HostDevice device("host", DeviceArguments{}, {});
  const Numbered schedule;
  for (const i64 last : {i64{1}, i64{3}, i64{2048}, i64{2049}, i64{10'000}, i64{100'000'000'000}}) {
    RateTable table(schedule, last, device);
    const i64 waits = device.host_calls().synchronize;
    EXPECT_LE(table.tensor().dim(0), 4096);
    for (i64 done = 0; done < std::min<i64>(last, 10'000); ++done) {
      table.cover(done);
      const bool look = done < 5 || done % 2048 < 3 || done % 2048 > 2045;
      for (const i64 update : {done + 1, done + 2}) {
        if (!look || update > last) continue;
        ASSERT_EQ(rate_at(device, table, update), static_cast<double>(update)) << last;
      }
    }
    EXPECT_EQ(device.host_calls().synchronize, waits);
    EXPECT_EQ(device.host_calls().write, 0) << "a step would wait for it";
  }
}

TEST(RateTable, StartsInTheMiddle) {
  HostDevice device("host", DeviceArguments{}, {});
  const Numbered schedule;
  RateTable table(schedule, 1'000'000, device);
  for (const i64 done : {i64{0}, i64{2047}, i64{2048}, i64{4095}, i64{777'777}, i64{5}}) {
    table.start(done);
    EXPECT_EQ(rate_at(device, table, done + 1), static_cast<double>(done + 1));
    EXPECT_EQ(rate_at(device, table, done + 2), static_cast<double>(done + 2));
  }
}

}  // namespace rate_table_test
}  // namespace tessera
