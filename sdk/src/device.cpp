#include "tessera/device/device.hpp"

#include "tessera/error.hpp"

namespace tessera {
namespace {

constexpr std::chrono::milliseconds kBetweenChecks{2};

}  // namespace

Device::~Device() = default;

void Device::launch_library(Stream& stream,
                            std::string_view name,
                            const std::function<void(void*)>&) {
  fail(
      "\"{}\" cannot be enqueued on stream \"{}\": device \"{}\" has no streams of a vendor's "
      "library; choose a [comm] type for its memory",
      name,
      stream.name(),
      this->name());
}

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
    device_.check_wait();
  }
  require(now < deadline_,
          "device \"{}\" has not reached {} after {:.3f} s: it is stuck, or the deadline is too "
          "short for the work that comes before",
          device_.name(),
          what_,
          std::chrono::duration<double>(now - begin_).count());
}

}  // namespace tessera
