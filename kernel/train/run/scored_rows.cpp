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
    if (input.info.length == FieldInfo::kTokens && input.info.loss == main->name)
      mask_ = input.slot;
  }
  if (mask_.index >= 0) rows_ = named(parts, "scored_rows");
}

void ScoredRows::choose(Context& cx, Bundle& bundle) const {
  if (rows_.index < 0) return;
  std::vector<u8> mask(static_cast<std::size_t>(count_));
  device_.read(bundle[mask_], mask.data());
  std::vector<i32> rows;
  for (i64 row = 0; row < count_; ++row) {
    if (mask[static_cast<std::size_t>(row)] != 0) rows.push_back(static_cast<i32>(row));
  }
  const i64 wanted = std::max<i64>(static_cast<i64>(rows.size()), 1);
  const i64 size = (wanted + kMultiple - 1) / kMultiple * kMultiple;
  if (size >= count_) return;
  rows.resize(static_cast<std::size_t>(size), -1);
  bundle[rows_] = cx.empty({size}, DType::i32);
  device_.write(bundle[rows_], rows.data());
}

std::vector<i32> ScoredRows::of(Bundle& bundle) const {
  const bool some = rows_.index >= 0 && bundle[rows_].defined();
  std::vector<i32> rows(static_cast<std::size_t>(some ? bundle[rows_].elements() : count_));
  if (some) {
    device_.read(bundle[rows_], rows.data());
  } else {
    std::iota(rows.begin(), rows.end(), 0);
  }
  return rows;
}

}  // namespace tessera
