#include "tessera/device/device.hpp"

#include "tessera/error.hpp"

namespace tessera {
namespace {

constexpr std::chrono::milliseconds kBetweenChecks{2};

}  // namespace

Device::~Device() = default;

Device::HostWait::HostWait(const Device& device, std::string_view what, Deadline deadline)
    : device_(device),
      what_(what),
      begin_(std::chrono::steady_clock::now()),
      deadline_(deadline),
      next_check_(begin_) {}

void Device::HostWait::check() {
  const Deadline now = std::chrono::steady_clock::now();
  if (now >= next_check_) {
    next_check_ = now + kBetweenChecks;
    if (device_.wait_check_) device_.wait_check_();
  }
  require(now < deadline_,
          "device \"{}\" has not reached {} after {:.3f} s: it is stuck, or the deadline is too "
          "short for the work that comes before",
          device_.name(),
          what_,
          std::chrono::duration<double>(now - begin_).count());
}

}  // namespace tessera
