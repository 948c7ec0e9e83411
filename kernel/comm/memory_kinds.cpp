#include "kernel/comm/memory_kinds.hpp"

#include "tessera/device/device.hpp"
#include "tessera/error.hpp"

namespace tessera {

void check_memory_kinds(const MemoryKinds& kinds, bool staged) {
  const bool fits = kinds.carried.empty() || kinds.carried == kinds.of_device;
  if (staged && fits) {
    fail_config(
        "comm.staged = true has no effect: communicator \"{}\" carries tensors of device \"{}\" "
        "where they are, in memory of kind \"{}\"; leave it out",
        kinds.communicator,
        kinds.device,
        kinds.of_device);
  }
  if (fits) return;
  const bool host = kinds.carried == kHostMemory;
  if (staged && host) return;
  if (staged) {
    fail_config(
        "comm.staged = true copies tensors of device \"{}\" through memory of the host, and "
        "communicator \"{}\" carries those of kind \"{}\": choose a [comm] type that carries "
        "memory of kind \"{}\", or a [device] type with memory of kind \"{}\" and no comm.staged",
        kinds.device,
        kinds.communicator,
        kinds.carried,
        kHostMemory,
        kinds.carried);
  }
  fail_config(
      "device \"{}\" keeps tensors in memory of kind \"{}\", and communicator \"{}\" carries those "
      "of kind \"{}\": choose a [device] type and a [comm] type for one kind of memory{}",
      kinds.device,
      kinds.of_device,
      kinds.communicator,
      kinds.carried,
      host ? ", or comm.staged = true, which copies what ranks exchange through memory of the host"
           : "");
}

void check_memory_kinds(const Device& device, const Communicator& communicator, bool staged) {
  check_memory_kinds(
      {device.name(), device.memory_kind(), communicator.name(), communicator.memory_kind()},
      staged);
}

}  // namespace tessera
