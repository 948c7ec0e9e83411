// The devices that ship, held against the contract of all devices, inline and in any order.
#include <gmock/gmock.h>

#include "tessera/testing/device_check.hpp"
#include "tests/unit/ops/devices_support.hpp"

namespace tessera {
namespace device_contract_test {

class DeviceContract : public ::testing::TestWithParam<std::string> {};

TEST_P(DeviceContract, HoldsInlineAndInAnyOrder) {
  for (u64 seed = 0; seed <= 4; ++seed) {
    EXPECT_EQ(testing::device_check([&](DeviceArguments arguments) {
                arguments.deferred_seed = seed;
                return test_device(GetParam(), arguments);
              }),
              "")
        << (seed == 0 ? "inline" : "deferred, seed ") << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Devices,
                         DeviceContract,
                         ::testing::ValuesIn(cpu_devices()),
                         [](const auto& info) { return info.param; });

}  // namespace device_contract_test
}  // namespace tessera
