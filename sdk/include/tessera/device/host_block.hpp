#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "tessera/base/api.hpp"
#include "tessera/tensor.hpp"

namespace tessera {

/// Page-locked memory of the host, between which and tensors a device copies without stopping the
/// host. Made by Device::host_block; its address never changes. A handle: copies of it share the
/// memory. The memory is freed once the last handle, the last enqueued copy and the last graph that
/// use it are gone, so a handle may be dropped while copies are queued.
///
/// Any thread may read and write the bytes, but none while an enqueued copy uses them: wait for an
/// event recorded after the copy. The values of a new block are not initialised. A device outlives
/// its blocks.
class TESSERA_API HostBlock {
 public:
  HostBlock() = default;  ///< no memory
  /// For devices. When the last copy of `owner` goes, the device frees the memory, at the latest
  /// after the copies that it has enqueued.
  HostBlock(std::shared_ptr<void> owner, void* address, i64 bytes);

  bool defined() const { return owner_ != nullptr; }
  i64 bytes() const { return bytes_; }
  std::byte* address() const { return address_; }
  /// `count` values of type T from byte `offset` on. Throws Error when they are not within the
  /// block or not aligned.
  template <class T>
  std::span<T> as(i64 count, i64 offset = 0) const {
    check(count, static_cast<i64>(sizeof(T)), offset);
    return {reinterpret_cast<T*>(address_ + offset), static_cast<std::size_t>(count)};
  }
  const std::shared_ptr<void>& owner() const { return owner_; }

 private:
  void check(i64 count, i64 size, i64 offset) const;
  std::shared_ptr<void> owner_;
  std::byte* address_ = nullptr;
  i64 bytes_ = 0;
};

/// A copy between a tensor and a host block as a device's runtime takes it: `rows` runs of
/// `row_bytes`, `pitch` bytes apart in the tensor and without gaps in the block. Both
/// cudaMemcpy2DAsync and the memcpy node of a CUDA graph do this in one call. `rows` is 0 where
/// there is nothing to copy.
struct HostCopy {
  void* tensor = nullptr;
  std::byte* block = nullptr;
  i64 rows = 0, row_bytes = 0, pitch = 0;
};

/// For devices: the copy of all elements of `tensor`, in row-major order, to or from byte `offset`
/// of `block`. Throws Error, naming `copy` ("copy_to_host"), when the tensor is undefined, when
/// block or offset do not hold it, and when it is neither dense nor rows of one length at one
/// distance, as slices of dense tensors along one dimension are.
TESSERA_API HostCopy host_copy(std::string_view copy,
                               const Tensor& tensor,
                               const HostBlock& block,
                               i64 offset);

}  // namespace tessera
