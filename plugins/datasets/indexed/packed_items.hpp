#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "order.hpp"
#include "tessera/io/kept_bytes.hpp"

namespace tessera {

/// Tokens that are read together, packed into samples of `length`: the largest items first, each
/// into the sample that has the least room that is enough (Ding et al. 2024, "Fewer Truncations
/// Improve Language Modeling", §3). An item of n tokens takes n - 1 places: its last token is a
/// target only. Samples are numbered in an order of their own, so that the first ones are no larger
/// than others. Moving it does not move what it keeps.
class PackedItems {
 public:
  struct Item {
    i64 begin, places;  ///< its first token; it has one more than places, of which length is enough
    i64 quiet;          ///< Piece::quiet
  };

  /// Built once on a host, where there is a folder `keep_in`; `decides` is all that the items
  /// depend on.
  PackedItems(const std::string& keep_in,
              const std::string& decides,
              i64 length,
              const std::function<std::vector<Item>()>& items);
  i64 size() const { return static_cast<i64>(starts_.size()) - 1; }
  /// Fills in the sample's pieces, which are of a source of so many tokens.
  void find(i64 number, i64 tokens, Sample& sample) const;

 private:
  bool view(std::string_view bytes);

  std::unique_ptr<KeptBytes> kept_;
  std::span<const i64> starts_;  // of each sample in the items, and the end
  std::span<const Item> items_;
};

}  // namespace tessera
