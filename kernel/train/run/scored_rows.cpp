#include "kernel/train/run/scored_rows.hpp"

#include <algorithm>
#include <numeric>

namespace tessera {

namespace {

// Libraries plan a product for each number of rows that they meet.
constexpr i64 kMultiple = 32;

Slot named(const ModelParts& parts, std::string_view name) {
  const auto found = std::ranges::find(parts.slots(), name);
  if (found == parts.slots().end()) return {};
  return {static_cast<int>(found - parts.slots().begin())};
}

}  // namespace

ScoredRows::ScoredRows(const ModelParts& parts, const SampleReader& reader, Device& device)
    : device_(device), count_(reader.shape().rows()) {
  const auto& losses = parts.losses();
  const auto main = std::ranges::find_if(losses, [](const auto& loss) { return !loss.auxiliary; });
  if (main == losses.end()) return;
  for (const SampleReader::Input& input : reader.inputs()) {
    if (input.info.length != FieldInfo::kTokens) continue;
    if (input.info.name == "targets") all_targets_ = input.slot;
    if (input.info.loss == main->name) all_masks_ = input.slot;
  }
  if (all_targets_.index < 0 || all_masks_.index < 0) return;
  rows_ = named(parts, "scored_rows");
  targets_ = named(parts, "scored_targets");
  mask_ = named(parts, "scored_mask");
}

void ScoredRows::choose(Context& cx, Bundle& bundle) const {
  if (rows_.index < 0) return;
  std::vector<u8> mask(static_cast<std::size_t>(count_));
  std::vector<i64> targets(mask.size()), rows, chosen;
  device_.read(bundle[all_masks_], mask.data());
  device_.read(bundle[all_targets_], targets.data());
  for (i64 row = 0; row < count_; ++row) {
    if (mask[static_cast<std::size_t>(row)] != 0) rows.push_back(row);
  }
  const i64 wanted = std::max<i64>(static_cast<i64>(rows.size()), 1);
  const i64 size = (wanted + kMultiple - 1) / kMultiple * kMultiple;
  if (size >= count_) return;
  rows.resize(static_cast<std::size_t>(size), 0);
  for (const i64 row : rows) chosen.push_back(targets[static_cast<std::size_t>(row)]);
  mask.assign(rows.size(), 1);
  const auto put = [&](Slot slot, DType dtype, const void* values) {
    bundle[slot] = cx.empty({size}, dtype);
    device_.write(bundle[slot], values);
  };
  put(rows_, DType::i64, rows.data());
  put(targets_, DType::i64, chosen.data());
  put(mask_, DType::u8, mask.data());
}

std::vector<i64> ScoredRows::of(Bundle& bundle) const {
  const bool some = rows_.index >= 0 && bundle[rows_].defined();
  std::vector<i64> rows(static_cast<std::size_t>(some ? bundle[rows_].elements() : count_));
  if (some) {
    device_.read(bundle[rows_], rows.data());
  } else {
    std::iota(rows.begin(), rows.end(), i64{0});
  }
  return rows;
}

}  // namespace tessera
