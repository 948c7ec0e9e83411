#include "kernel/checkpoint/slices.hpp"

#include <cstring>

#include "tessera/error.hpp"

namespace tessera {

std::vector<LocalSlice> local_slices(const Parameter& parameter, const Mesh& mesh) {
  std::vector<LocalSlice> all{LocalSlice{}};
  for (int dim = 0; dim < parameter.logical.rank(); ++dim) {
    std::vector<LocalSlice> deeper;
    for (const LocalSlice& outer : all) {
      for (const Slice& slice : parameter.slices(dim, mesh)) {
        LocalSlice inner = outer;
        inner.where.begin.push_back(slice.logical);
        inner.where.shape.push_back(slice.length);
        inner.local_begin.push_back(slice.local);
        deeper.push_back(std::move(inner));
      }
    }
    all = std::move(deeper);
  }
  return all;
}

void copy_block(std::span<const std::byte> from,
                const std::vector<i64>& from_sizes,
                const std::vector<i64>& from_begin,
                std::span<std::byte> to,
                const std::vector<i64>& to_sizes,
                const std::vector<i64>& to_begin,
                const std::vector<i64>& shape,
                i64 bytes) {
  const std::size_t rank = shape.size();
  if (rank == 0) {
    std::memcpy(to.data(), from.data(), static_cast<std::size_t>(bytes));
    return;
  }
  const auto offset = [&](const std::vector<i64>& sizes,
                          const std::vector<i64>& begin,
                          const std::vector<i64>& index) {
    i64 at = 0;
    for (std::size_t d = 0; d < rank; ++d) at = at * sizes[d] + begin[d] + index[d];
    return at * bytes;
  };
  for (const i64 size : shape) {
    if (size == 0) return;
  }
  const i64 run = shape.back() * bytes;
  std::vector<i64> index(rank, 0);
  while (true) {
    const i64 source = offset(from_sizes, from_begin, index);
    const i64 target = offset(to_sizes, to_begin, index);
    require(source + run <= static_cast<i64>(from.size()) &&
                target + run <= static_cast<i64>(to.size()),
            "a block copy leaves its array");
    std::memcpy(to.data() + target, from.data() + source, static_cast<std::size_t>(run));
    std::size_t d = rank - 1;
    while (d > 0 && ++index[d - 1] == shape[d - 1]) index[--d] = 0;
    if (d == 0) return;
  }
}

}  // namespace tessera
