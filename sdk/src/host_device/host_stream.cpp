#include "sdk/src/host_device/host_stream.hpp"

#include <utility>

namespace tessera {

Stream::Stream(Device& device, int index, std::string name)
    : device_(device), index_(index), name_(std::move(name)) {}
Stream::~Stream() = default;

HostStream::HostStream(Device& device, int index, std::string name, Poison poison)
    : Stream(device, index, std::move(name)), poison_(std::move(poison)) {}

void HostStream::poison(void* address, i64 bytes) {
  if (poison_) poison_(*this, address, bytes);
}

void poison(Stream& stream, void* address, i64 bytes) {
  if (auto* host = dynamic_cast<HostStream*>(&stream)) host->poison(address, bytes);
}

}  // namespace tessera
