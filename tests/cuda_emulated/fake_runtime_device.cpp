// The emulated machine, its GPUs, and errors.
#include <algorithm>
#include <cstdlib>
#include <utility>

#include "fake_runtime.hpp"

namespace tessera::cuda::emulated {
namespace {

i64 setting(const char* name, i64 otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr && *text != '\0' ? std::strtoll(text, nullptr, 10) : otherwise;
}

struct ErrorText {
  cudaError_t error;
  const char* name;
  const char* text;
};
constexpr ErrorText kErrors[] = {
#define TESSERA_ROW(name, value, text) {name, #name, text},
    TESSERA_CUDA_ERRORS(TESSERA_ROW)
#undef TESSERA_ROW
};

const ErrorText& text_of(cudaError_t error) {
  for (const ErrorText& each : kErrors) {
    if (each.error == error) return each;
  }
  constexpr static ErrorText kOther{
      cudaSuccess, "unrecognized error code", "unrecognized error code"};
  return kOther;
}

/// Never destroyed at the end of the process, to which streams may run.
State*& current() {
  static State* current = new State;
  return current;
}

bool visible(int device) {
  return device >= 0 && device < static_cast<int>(state().machine.gpus.size());
}

}  // namespace

Machine::Machine()
    : driver(static_cast<int>(setting("TESSERA_EMULATED_DRIVER", 13000))),
      runtime(static_cast<int>(setting("TESSERA_EMULATED_RUNTIME", 13000))),
      memory(setting("TESSERA_EMULATED_MEMORY", i64{4} << 30)),
      others(setting("TESSERA_EMULATED_OTHERS", 0)),
      seed(static_cast<u64>(setting("TESSERA_EMULATED_SEED", 1))) {
  if (const char* text = std::getenv("TESSERA_EMULATED_FAULT")) fault = text;
  failing_kernel = setting("TESSERA_EMULATED_FAULT", 0);
  const int count = static_cast<int>(setting("TESSERA_EMULATED_GPUS", 1));
  const char* chosen = std::getenv("CUDA_VISIBLE_DEVICES");
  for (int i = 0; i < count && chosen == nullptr; ++i) gpus.push_back(i);
  while (chosen != nullptr && *chosen != '\0') {  // as CUDA, up to the first that is none
    char* end = nullptr;
    const long gpu = std::strtol(chosen, &end, 10);
    if (end == chosen || gpu < 0 || gpu >= count) break;
    gpus.push_back(static_cast<int>(gpu));
    chosen = *end == ',' ? end + 1 : end;
  }
}

State& state() { return *current(); }

int capability() { return static_cast<int>(setting("TESSERA_EMULATED_CAPABILITY", 90)); }

int most_shared_memory() {
  switch (capability()) {
    case 80:
    case 87:
      return 163 * 1024;
    case 86:
    case 89:
    case 120:
    case 121:
      return 99 * 1024;
    default:
      return 227 * 1024;
  }
}

void reset() {
  State& old = state();
  for (CUstream_st& stream : old.streams) {
    if (stream.alive) stream.end();
  }
  for (const auto& [address, block] : old.blocks) unmap(block);
  delete std::exchange(current(), new State);
  this_thread = {};
}

cudaError_t unusable() {
  const Machine& machine = state().machine;
  if (machine.driver / 1000 < machine.runtime / 1000) return cudaErrorInsufficientDriver;
  return machine.gpus.empty() ? cudaErrorNoDevice : state().failed.load();
}

Usage usage() {
  State& all = state();
  const Lock lock(all.mutex);
  const auto count = [](const auto& handles) {
    return std::count_if(
        handles.begin(), handles.end(), [](const auto& handle) { return handle.alive; });
  };
  Usage usage{.streams = count(all.streams),
              .events = count(all.events),
              .graphs = count(all.graphs) + count(all.execs),
              .mallocs = all.mallocs};
  for (const auto& [address, block] : all.blocks) {
    if (block.device) usage.device_bytes += static_cast<i64>(block.bytes);
    ++(block.device ? usage.device_blocks : usage.host_blocks);
  }
  return usage;
}

}  // namespace tessera::cuda::emulated

using namespace tessera::cuda::emulated;

cudaError_t cudaGetLastError() {
  const cudaError_t last = std::exchange(this_thread.last_error, cudaSuccess);
  return state().failed != cudaSuccess ? state().failed.load() : last;
}

const char* cudaGetErrorName(cudaError_t error) { return text_of(error).name; }

const char* cudaGetErrorString(cudaError_t error) {
  const bool told = error != cudaSuccess && error == state().failed;
  return told ? state().failure.c_str() : text_of(error).text;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = state().machine.driver;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = state().machine.runtime;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 0;
  if (state().machine.fault == "crash") std::abort();
  if (state().machine.fault == "broken") return cudaErrorSystemNotReady;
  return call([&](Lock&) {
    *count = static_cast<int>(state().machine.gpus.size());
    return cudaSuccess;
  });
}

cudaError_t cudaSetDevice(int device) {
  return call([&](Lock&) {
    if (!visible(device)) return cudaErrorInvalidDevice;
    if (state().machine.fault == "held") return cudaErrorDevicesUnavailable;
    this_thread.gpu = device;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDevice(int* device) {
  return call([&](Lock&) {
    *device = this_thread.gpu;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return call([&](Lock&) {
    if (!visible(device)) return cudaErrorInvalidDevice;
    const bool shared = attribute == cudaDevAttrMaxSharedMemoryPerBlockOptin;
    *value = shared ? most_shared_memory() : capability() / 10;
    return cudaSuccess;
  });
}

cudaError_t cudaFuncSetAttribute(const void* /*kernel*/,
                                 cudaFuncAttribute /*attribute*/,
                                 int value) {
  return call(
      [&](Lock&) { return value > most_shared_memory() ? cudaErrorInvalidValue : cudaSuccess; });
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* /*kernel*/) {
  return call([&](Lock&) {
    constexpr int kLeast = 80, kMost = 121;
    if (capability() < kLeast || capability() > kMost) return cudaErrorNoKernelImageForDevice;
    constexpr int kLastBinary = 103;  // the driver compiles what later GPUs run, from PTX
    if (capability() > kLastBinary && state().machine.driver < state().machine.runtime) {
      return cudaErrorUnsupportedPtxVersion;
    }
    *attributes = {};
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return call([&](Lock&) {
    if (!visible(device)) return cudaErrorInvalidDevice;
    const int gpu = state().machine.gpus[static_cast<std::size_t>(device)];
    *properties = {.name = "Emulated GPU",
                   .uuid = {"emulated GPU "},
                   .major = capability() / 10,
                   .minor = capability() % 10};
    properties->uuid.bytes[15] = static_cast<char>(gpu);
    return cudaSuccess;
  });
}
