#pragma once
#include <cstddef>
#include <string_view>
#include <vector>

#include "tessera/base/api.hpp"
#include "tessera/types.hpp"

namespace tessera {

/// Items [begin, end) of a list.
struct ItemRange {
  i64 begin = 0, end = 0;
  i64 size() const { return end - begin; }
};

/// Shares of a list as a user writes them, "98,2,0": ranges that follow each other, the bounds
/// between them rounded, to even at a half. As Megatron-LM's --split
/// (core/datasets/blended_megatron_dataset_config.py), in the same doubles, so bounds are the same.
class TESSERA_API Shares {
 public:
  /// Throws ConfigError, which begins with `key`, unless `text` has one to `most` numbers of 0 or
  /// more with commas between, not all 0.
  Shares(std::string_view text, std::string_view key, std::size_t most);
  std::size_t count() const { return bounds_.size() - 1; }
  /// The ranges of a list of so many items. A share of 0 has none.
  std::vector<ItemRange> of(i64 items) const;

 private:
  std::vector<double> bounds_ = {0};  // 0, 0.98, 1, 1
};

}  // namespace tessera
