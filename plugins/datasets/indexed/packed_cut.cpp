#include "packed_cut.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tessera {

std::vector<PackedItems::Item> PackedCut::items_of(const Part& part, i64 length) {
  std::vector<PackedItems::Item> items;
  for (i64 i = part.items.begin; i < part.items.end; ++i) {
    const i64 last = part.begin_of(i + 1) - 1;
    for (i64 begin = part.begin_of(i); begin < last; begin += length) {
      items.push_back({begin, std::min(length, last - begin), 0});
    }
  }
  return items;
}

PackedCut::PackedCut(Part part, i64 length, const std::string& keep_in)
    : part_(std::move(part)),
      items_(keep_in,
             fmt::format("{:016x} {} {}", part_.file->hash(), part_.items.begin, part_.items.end),
             length,
             [&] { return items_of(part_, length); }) {}

void PackedCut::find(i64 number, Sample& sample) const {
  sample.file = part_.file.get();
  items_.find(number, part_.file->index().tokens(), sample);
}

}  // namespace tessera
