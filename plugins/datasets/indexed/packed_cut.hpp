#pragma once
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "cut.hpp"
#include "tessera/io/kept_bytes.hpp"

namespace tessera {

/// Whole documents packed into samples of `length`, the largest first, each into the sample that
/// has the least room that is enough (Ding et al. 2024, "Fewer Truncations Improve Language
/// Modeling", §3). A document that is longer than a sample is cut into pieces of `length` first. A
/// document of n tokens takes n - 1 places: its last token is a target only. Samples are numbered
/// in an order of their own, so that the first ones are no larger than others.
class PackedCut final : public Cut {
 public:
  /// Built once on a host, where there is a folder `keep_in`.
  PackedCut(Part part, i64 length, const std::string& keep_in);
  i64 size() const override { return static_cast<i64>(starts_.size()) - 1; }
  void find(i64 number, Sample& sample) const override;

 private:
  struct Item {
    i64 begin, places;  // its first token; it has one more than places
  };
  static std::string build(const Part& part, i64 length);
  bool view(std::string_view bytes);

  Part part_;
  std::unique_ptr<KeptBytes> kept_;
  std::span<const i64> starts_;  // of each sample in the items, and the end
  std::span<const Item> items_;
};

}  // namespace tessera
