#include "tessera/device/host_block.hpp"

#include <cstdint>
#include <utility>

#include "tessera/error.hpp"

namespace tessera {

HostBlock::HostBlock(std::shared_ptr<void> owner, void* address, i64 bytes)
    : owner_(std::move(owner)), address_(static_cast<std::byte*>(address)), bytes_(bytes) {}

void HostBlock::check(i64 count, i64 size, i64 offset) const {
  require(offset >= 0 && count >= 0 && offset <= bytes_ && count <= (bytes_ - offset) / size,
          "{} values of {} bytes from byte {} on are not within a host block of {} bytes",
          count,
          size,
          offset,
          bytes_);
  require(reinterpret_cast<std::uintptr_t>(address_ + offset) % static_cast<u64>(size) == 0,
          "values of {} bytes cannot lie at byte {} of a host block: align the offset",
          size,
          offset);
}

HostCopy host_copy(std::string_view copy,
                   const Tensor& tensor,
                   const HostBlock& block,
                   i64 offset) {
  require(tensor.defined(), "{} of an undefined tensor", copy);
  require(block.defined() && offset >= 0 && offset <= block.bytes() &&
              tensor.bytes() <= block.bytes() - offset,
          "{} of {} ({} bytes) needs them in the host block from byte {} on, which has {} bytes",
          copy,
          tensor,
          tensor.bytes(),
          offset,
          block.bytes());
  const TensorArg arg = tensor.arg();
  HostCopy made{arg.address, block.address() + offset, 0, 0, 0};
  if (tensor.elements() == 0) return made;
  // From the innermost dimension outwards: what lies side by side is one row, then rows at one
  // distance.
  int dim = arg.rank - 1;
  const auto alone = [&] { return arg.shape[dim] == 1; };
  i64 row = 1, rows = 1, distance = 0;
  for (; dim >= 0 && (alone() || arg.strides[dim] == row); --dim) row *= arg.shape[dim];
  for (; dim >= 0; --dim) {
    if (alone()) continue;
    if (rows == 1) distance = arg.strides[dim];
    require(arg.strides[dim] == rows * distance && distance >= row,
            "{} of {} with strides {}: one copy moves a dense tensor, or rows of one length at one "
            "distance; copy it to a dense tensor first",
            copy,
            tensor,
            tensor.strides());
    rows *= arg.shape[dim];
  }
  const i64 size = dtype_size(arg.dtype);
  made.rows = rows;
  made.row_bytes = row * size;
  made.pitch = rows == 1 ? made.row_bytes : distance * size;
  return made;
}

}  // namespace tessera
