#include <fmt/format.h>

#include "check.hpp"
#include "tessera/testing/device_check.hpp"

namespace tessera::gpu_check {

void contract(const Target& target) {
  for (int time = 1; time <= target.options().times; ++time) {
    const std::string problem = testing::device_check(
        [&](DeviceArguments arguments) { return target.make(std::move(arguments)); });
    print(checked(fmt::format("device_check {}", time), problem));
  }
}

}  // namespace tessera::gpu_check
