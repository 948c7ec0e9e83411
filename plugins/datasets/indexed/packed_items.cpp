#include "packed_items.hpp"

#include <algorithm>
#include <map>

#include "arrays.hpp"
#include "tessera/base/hash.hpp"
#include "tessera/error.hpp"
#include "tessera/permutation.hpp"

namespace tessera {
namespace {

constexpr std::string_view kPackName = "docpack2";

std::string packed(std::vector<PackedItems::Item> items, i64 length) {
  using Item = PackedItems::Item;
  std::ranges::stable_sort(items, std::ranges::greater(), &Item::places);

  std::map<i64, std::vector<u32>> by_room;  // samples that have so much, none empty
  std::vector<std::vector<Item>> samples;
  for (const Item& item : items) {
    const auto found = by_room.lower_bound(item.places);
    std::size_t sample = samples.size();
    i64 room = length;
    if (found == by_room.end()) {
      samples.emplace_back();
    } else {
      room = found->first;
      sample = found->second.back();
      found->second.pop_back();
      if (found->second.empty()) by_room.erase(found);
    }
    samples[sample].push_back(item);
    if (room > item.places) by_room[room - item.places].push_back(static_cast<u32>(sample));
  }

  std::vector<i64> starts = {0};
  items.clear();
  const auto count = static_cast<i64>(samples.size());
  const Permutation mixed(count, 0, 0);
  for (i64 i = 0; i < count; ++i) {
    const std::vector<Item>& sample = samples[static_cast<std::size_t>(mixed(i))];
    items.insert(items.end(), sample.begin(), sample.end());
    starts.push_back(static_cast<i64>(items.size()));
  }
  return join_arrays(kPackName, starts, items);
}

}  // namespace

PackedItems::PackedItems(const std::string& keep_in,
                         const std::string& decides,
                         i64 length,
                         const std::function<std::vector<Item>()>& items) {
  kept_ = std::make_unique<KeptBytes>(
      keep_in,
      fmt::format("packed-{:016x}", hash64(fmt::format("2 {} {}", decides, length))),
      [&] { return packed(items(), length); },
      [this](std::string_view bytes) { return view(bytes); });
  require(view(kept_->bytes()), "packed samples that were kept are damaged");
}

bool PackedItems::view(std::string_view bytes) {
  return view_arrays(bytes, kPackName, starts_, items_) && !starts_.empty();
}

void PackedItems::find(i64 number, i64 tokens, Sample& sample) const {
  const auto at = static_cast<std::size_t>(number);
  const i64 begin = starts_[at], end = starts_[at + 1];
  require(begin >= 0 && begin <= end && end <= static_cast<i64>(items_.size()),
          "packed samples that were kept are damaged");
  sample.packed = true;
  sample.pieces.clear();
  for (i64 i = begin; i < end; ++i) {
    const auto [first, places, quiet] = items_[static_cast<std::size_t>(i)];
    require(first >= 0 && places > 0 && places < tokens - first && quiet >= 0,
            "packed samples that were kept are damaged");
    sample.pieces.push_back({first, places, false, quiet});
  }
}

}  // namespace tessera
