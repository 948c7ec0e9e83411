#include "kernel/checkpoint/slices.hpp"

#include <algorithm>
#include <cstring>

#include "tessera/error.hpp"

namespace tessera {

std::vector<LocalSlice> local_slices(const ParameterLayout& layout) {
  std::vector<LocalSlice> all{LocalSlice{}};
  for (int dim = 0; dim < layout.storage().rank(); ++dim) {
    std::vector<LocalSlice> deeper;
    for (const LocalSlice& outer : all) {
      for (const Slice& slice : layout.slices(dim)) {
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

namespace {

// Cuts a rectangle into those parts of it that lie in a range of the storage. Along each dimension
// the entries that lie inside as a whole stay together; those at its two ends are cut further.
class RangeCut {
 public:
  RangeCut(const Shape& storage, const FlatRange& range, std::vector<LocalSlice>& out)
      : strides_(dense_strides(storage)), range_(range), out_(out) {}

  void cut(const LocalSlice& slice, std::size_t dim = 0) {
    const i64 first = offset(slice), end = range_.begin + range_.length;
    const std::size_t rank = slice.local_begin.size();
    if (slice.where.elements() == 0 || last(slice) < range_.begin || first >= end) return;
    if (first >= range_.begin && last(slice) < end) {
      out_.push_back(slice);
      return;
    }
    if (dim == rank) return;
    const i64 length = slice.where.shape[dim];
    i64 whole_from = -1;  // entries before the current one that lie inside
    for (i64 i = 0; i < length; ++i) {
      const LocalSlice entry = part(slice, dim, i, 1);
      const bool inside = offset(entry) >= range_.begin && last(entry) < end;
      if (inside && whole_from < 0) whole_from = i;
      if (!inside) {
        if (whole_from >= 0) out_.push_back(part(slice, dim, whole_from, i - whole_from));
        whole_from = -1;
        cut(entry, dim + 1);
      }
    }
    if (whole_from >= 0) out_.push_back(part(slice, dim, whole_from, length - whole_from));
  }

 private:
  i64 offset(const LocalSlice& slice) const {
    i64 at = 0;
    for (std::size_t d = 0; d < slice.local_begin.size(); ++d) {
      at += slice.local_begin[d] * strides_[static_cast<int>(d)];
    }
    return at;
  }
  i64 last(const LocalSlice& slice) const {
    i64 at = offset(slice);
    for (std::size_t d = 0; d < slice.local_begin.size(); ++d) {
      at += (slice.where.shape[d] - 1) * strides_[static_cast<int>(d)];
    }
    return at;
  }
  static LocalSlice part(LocalSlice slice, std::size_t dim, i64 from, i64 length) {
    slice.where.begin[dim] += from;
    slice.where.shape[dim] = length;
    slice.local_begin[dim] += from;
    return slice;
  }

  Shape strides_;
  FlatRange range_;
  std::vector<LocalSlice>& out_;
};

}  // namespace

std::vector<LocalSlice> local_slices(const ParameterLayout& layout, const FlatRange& range) {
  std::vector<LocalSlice> out;
  RangeCut cut(layout.storage(), range, out);
  for (const LocalSlice& slice : local_slices(layout)) cut.cut(slice);
  return out;
}

std::vector<i64> begin_within(const Rectangle& whole, const Rectangle& part) {
  std::vector<i64> begin = part.begin;
  for (std::size_t d = 0; d < begin.size(); ++d) begin[d] -= whole.begin[d];
  return begin;
}

void each_run(const std::vector<i64>& sizes,
              const std::vector<i64>& begin,
              const std::vector<i64>& shape,
              const std::function<void(i64 first, i64 count)>& run) {
  if (std::ranges::find(shape, 0) != shape.end()) return;
  std::size_t outer = shape.size();  // dimensions before it are walked through
  i64 count = 1;
  while (outer > 0 && (outer == shape.size() || shape[outer] == sizes[outer])) {
    count *= shape[--outer];
  }
  std::vector<i64> index(outer, 0);
  while (true) {
    i64 first = 0;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      first = first * sizes[d] + begin[d] + (d < outer ? index[d] : 0);
    }
    run(first, count);
    std::size_t d = outer;
    while (d > 0 && ++index[d - 1] == shape[d - 1]) index[--d] = 0;
    if (d == 0) return;
  }
}

void copy_block(std::span<const std::byte> from,
                const std::vector<i64>& from_sizes,
                const std::vector<i64>& from_begin,
                std::span<std::byte> to,
                const std::vector<i64>& to_sizes,
                const std::vector<i64>& to_begin,
                const std::vector<i64>& shape,
                i64 bytes,
                i64 from_first) {
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
    const i64 source = offset(from_sizes, from_begin, index) - from_first * bytes;
    const i64 target = offset(to_sizes, to_begin, index);
    require(source >= 0 && source + run <= static_cast<i64>(from.size()) &&
                target + run <= static_cast<i64>(to.size()),
            "a block copy leaves its array");
    std::memcpy(to.data() + target, from.data() + source, static_cast<std::size_t>(run));
    std::size_t d = rank - 1;
    while (d > 0 && ++index[d - 1] == shape[d - 1]) index[--d] = 0;
    if (d == 0) return;
  }
}

std::span<const std::byte> block_of(std::span<const std::byte> bytes,
                                    const Rectangle& of,
                                    const Rectangle& part,
                                    i64 element,
                                    std::vector<std::byte>& memory) {
  if (part.shape == of.shape) return bytes;
  memory.resize(static_cast<std::size_t>(part.elements() * element));
  copy_block(bytes,
             of.shape,
             begin_within(of, part),
             memory,
             part.shape,
             std::vector<i64>(part.shape.size(), 0),
             part.shape,
             element);
  return memory;
}

}  // namespace tessera
