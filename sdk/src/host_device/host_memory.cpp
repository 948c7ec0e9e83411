#include "sdk/src/host_device/host_memory.hpp"

#include <new>
#include <utility>

#include "tessera/error.hpp"

namespace tessera {
namespace {

constexpr std::align_val_t kLine{64};

}  // namespace

HostMemory::HostMemory(const Device& device, i64 bytes, std::shared_ptr<i64> in_use)
    : device_(device), bytes_(bytes), in_use_(std::move(in_use)) {
  require(bytes >= 0, "a host block cannot have {} bytes", bytes);
  address_ = static_cast<std::byte*>(::operator new(static_cast<std::size_t>(bytes), kLine));
  *in_use_ += bytes_;
}

HostMemory::~HostMemory() {
  *in_use_ -= bytes_;
  ::operator delete(address_, kLine);
}

}  // namespace tessera
