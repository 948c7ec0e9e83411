#pragma once
#include <array>
#include <memory>
#include <string>
#include <string_view>

#include "tessera/base/api.hpp"
#include "tessera/types.hpp"

namespace tessera {

class Stream;

/// The kind of memory that the CPU addresses. Other kinds have names of their own ("cuda"), which
/// their devices, memory sources and communicators agree on.
inline constexpr std::string_view kHostMemory = "host";

/// What memory is used for; peaks are kept for each.
enum class Category : u8 {
  parameters,
  gradients,
  optimizer,
  activations,
  communication,
  graph,
  workspace,
};
inline constexpr int kCategories = 7;
TESSERA_API std::string_view category_name(Category category);

/// A piece of device memory. Freed in the order of `stream`: it may be given out again at once to
/// later work of the same stream, because that work runs after what still reads it.
struct Block {
  void* address = nullptr;
  i64 bytes = 0;  ///< as reserved, at least what was asked for
  Category category = Category::activations;
  Stream* stream = nullptr;
};

struct MemoryStats {
  std::array<i64, kCategories> bytes{};  ///< in use now
  std::array<i64, kCategories> peak{};   ///< highest since the last reset_peaks()
  i64 total = 0, total_peak = 0;         ///< over all categories at one moment
  i64 reserved = 0;                      ///< taken from the system
  i64 touched = 0;       ///< of it, given out at least once: what a host holds of it
  i64 host_blocks = 0;   ///< bytes of host blocks, which are not in the above
  i64 system_calls = 0;  ///< requests to the system so far
};

/// Where tensors get their memory. Owned by a device (its caching allocator), by a graph slot (an
/// arena) or by a process group (memory that peers reach). Used by one rank's thread only.
class TESSERA_API Pool {
 public:
  virtual ~Pool();
  /// At least `bytes` bytes, aligned to 64. `bytes` 0 is allowed. Throws Error when out of memory.
  virtual Block allocate(i64 bytes, Category category, Stream& stream) = 0;
  virtual void release(const Block& block) = 0;
};

/// Where a caching allocator gets whole slabs from: the system, or a segment that peer processes
/// can read. Slabs are returned when the allocator dies.
class TESSERA_API MemorySource {
 public:
  virtual ~MemorySource();
  /// A device takes memory of its own kind only (Device::memory_kind).
  virtual std::string_view kind() const { return kHostMemory; }
  /// `bytes` (a multiple of 4096) page aligned; nullptr when there is no more. Host memory is
  /// zeroed; other kinds hold anything.
  virtual void* reserve(i64 bytes) = 0;
  virtual void release(void* address, i64 bytes) = 0;
  /// What bounds it, for the error where there is no more: "of this rank's segment of … bytes
  /// (comm.segment_gib)". Empty: the machine.
  virtual std::string limit() const { return {}; }
};

}  // namespace tessera
