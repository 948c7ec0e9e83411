// Memory of GPUs and page-locked memory: pages of their own that begin as NaN, and copies.
#include <sys/mman.h>

#include <cstring>
#include <iterator>
#include <optional>

#include "fake_runtime.hpp"

namespace tessera::cuda::emulated {
namespace {

constexpr std::size_t kPage = 4096, kAlignment = 256;

constexpr std::size_t round_up(std::size_t bytes, std::size_t to) {
  return (bytes + to - 1) / to * to;
}

i64 used(int gpu) {
  i64 bytes = state().machine.others;
  for (const auto& [address, block] : state().blocks) {
    if (block.device && block.gpu == gpu) bytes += static_cast<i64>(block.bytes);
  }
  return bytes;
}

/// The block ends where a page that cannot be touched begins.
cudaError_t allocate(bool device, void** memory, std::size_t bytes) {
  *memory = nullptr;
  if (const cudaError_t refused = refuse_in_capture(); refused != cudaSuccess) return refused;
  if (bytes == 0) return cudaSuccess;
  const int gpu = this_thread.gpu;
  const i64 available = state().machine.memory - used(gpu);
  if (device) {
    ++state().mallocs;
    if (available < 0 || bytes > static_cast<std::size_t>(available)) {
      return cudaErrorMemoryAllocation;
    }
  }
  const std::size_t mapped = round_up(bytes, kPage) + kPage;
  void* pages = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return cudaErrorMemoryAllocation;
  auto* begin = static_cast<std::byte*>(pages);
  mprotect(begin + mapped - kPage, kPage, PROT_NONE);
  *memory = begin + mapped - kPage - round_up(bytes, kAlignment);
  std::memset(*memory, 0xff, bytes);
  state().blocks.emplace(reinterpret_cast<std::uintptr_t>(*memory),
                         Block{device, gpu, bytes, begin, mapped});
  return cudaSuccess;
}

cudaError_t release(Lock& lock, bool device, void* memory) {
  if (const cudaError_t refused = refuse_in_capture(); refused != cudaSuccess) return refused;
  if (memory == nullptr) return cudaSuccess;
  auto& blocks = state().blocks;
  const auto found = blocks.find(reinterpret_cast<std::uintptr_t>(memory));
  if (found == blocks.end() || found->second.device != device) return cudaErrorInvalidValue;
  const Block block = found->second;
  if (device) {
    if (const cudaError_t failed = wait_for_gpu(lock, block.gpu); failed != cudaSuccess) {
      return failed;
    }
  }
  blocks.erase(reinterpret_cast<std::uintptr_t>(memory));
  unmap(block);
  return cudaSuccess;
}

enum class Where { device, locked, pageable };

/// Nothing: it begins in a block and ends outside.
std::optional<Where> where(const void* memory, std::size_t bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  const auto after = state().blocks.upper_bound(address);
  if (after == state().blocks.begin()) return Where::pageable;
  const auto& [begin, block] = *std::prev(after);
  if (address >= begin + block.bytes) return Where::pageable;
  if (bytes > begin + block.bytes - address) return std::nullopt;
  return block.device ? Where::device : Where::locked;
}

struct Rows {
  std::byte* to;
  std::size_t to_pitch;
  const std::byte* from;
  std::size_t from_pitch;
  std::size_t width, height;

  void copy() const {
    for (std::size_t row = 0; row < height; ++row) {
      std::memcpy(to + row * to_pitch, from + row * from_pitch, width);
    }
  }
};

cudaError_t copy(Lock& lock, Rows rows, cudaMemcpyKind kind, cudaStream_t stream) {
  if (!alive(stream)) return cudaErrorInvalidResourceHandle;
  if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) {
    return cudaErrorInvalidMemcpyDirection;
  }
  if (rows.to_pitch < rows.width || rows.from_pitch < rows.width) return cudaErrorInvalidPitchValue;
  if (rows.width == 0 || rows.height == 0) return cudaSuccess;
  const auto to = where(rows.to, rows.to_pitch * (rows.height - 1) + rows.width);
  const auto from = where(rows.from, rows.from_pitch * (rows.height - 1) + rows.width);
  if (!to || !from) return cudaErrorInvalidValue;
  const int is = (from == Where::device ? 2 : 0) + (to == Where::device ? 1 : 0);
  if (kind != cudaMemcpyDefault && kind != is) return cudaErrorInvalidValue;
  const bool pageable = to == Where::pageable || from == Where::pageable;
  if (pageable && stream->capture != 0) {
    return spoil(stream->capture, cudaErrorStreamCaptureUnsupported);
  }
  if (from == Where::pageable) {  // read before the call returns
    std::vector<std::byte> values(rows.width * rows.height);
    Rows{values.data(), rows.width, rows.from, rows.from_pitch, rows.width, rows.height}.copy();
    rows.from_pitch = rows.width;
    return enqueue(stream, [rows, values = std::move(values)]() mutable {
      rows.from = values.data();
      rows.copy();
      return std::string();
    });
  }
  const cudaError_t result = enqueue(stream, [rows] {
    rows.copy();
    return std::string();
  });
  // Written before the call returns.
  return pageable && result == cudaSuccess ? wait(lock, *stream, stream->enqueued) : result;
}

}  // namespace

void unmap(const Block& block) { munmap(block.mapped, block.mapped_bytes); }

}  // namespace tessera::cuda::emulated

using namespace tessera::cuda::emulated;

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  return call([&](Lock&) {
    const auto all = state().machine.memory, taken = used(this_thread.gpu);
    *free = static_cast<std::size_t>(taken < all ? all - taken : 0);
    *total = static_cast<std::size_t>(all);
    return cudaSuccess;
  });
}

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  return call([&](Lock&) { return allocate(true, memory, bytes); });
}

cudaError_t cudaFree(void* memory) {
  return call([&](Lock& lock) { return release(lock, true, memory); });
}

cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned /*flags*/) {
  return call([&](Lock&) { return allocate(false, memory, bytes); });
}

cudaError_t cudaFreeHost(void* memory) {
  return call([&](Lock& lock) { return release(lock, false, memory); });
}

cudaError_t cudaMemcpyAsync(
    void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  return call([&](Lock& lock) {
    const Rows rows{
        static_cast<std::byte*>(to), bytes, static_cast<const std::byte*>(from), bytes, bytes, 1};
    return copy(lock, rows, kind, stream);
  });
}

cudaError_t cudaMemcpy2DAsync(void* to,
                              std::size_t to_pitch,
                              const void* from,
                              std::size_t from_pitch,
                              std::size_t width,
                              std::size_t height,
                              cudaMemcpyKind kind,
                              cudaStream_t stream) {
  constexpr std::size_t kMostPitch = 0x7fffffff;  // cudaDeviceProp::memPitch
  return call([&](Lock& lock) {
    if (to_pitch > kMostPitch || from_pitch > kMostPitch) return cudaErrorInvalidPitchValue;
    const Rows rows{static_cast<std::byte*>(to),
                    to_pitch,
                    static_cast<const std::byte*>(from),
                    from_pitch,
                    width,
                    height};
    return copy(lock, rows, kind, stream);
  });
}

cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream) {
  return call([&](Lock&) {
    if (!alive(stream)) return cudaErrorInvalidResourceHandle;
    if (bytes == 0) return cudaSuccess;
    const auto place = where(memory, bytes);
    if (!place || place == Where::pageable) return cudaErrorInvalidValue;
    return enqueue(stream, [=] {
      std::memset(memory, value, bytes);
      return std::string();
    });
  });
}
