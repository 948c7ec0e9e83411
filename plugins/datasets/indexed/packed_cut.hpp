#pragma once
#include <string>
#include <vector>

#include "cut.hpp"
#include "packed_items.hpp"

namespace tessera {

/// Whole documents packed into samples of `length`. A document that is longer than a sample is cut
/// into pieces of `length` first.
class PackedCut final : public Cut {
 public:
  /// Built once on a host, where there is a folder `keep_in`.
  PackedCut(Part part, i64 length, const std::string& keep_in);
  i64 size() const override { return items_.size(); }
  void find(i64 number, Sample& sample) const override;

 private:
  static std::vector<PackedItems::Item> items_of(const Part& part, i64 length);

  Part part_;
  PackedItems items_;
};

}  // namespace tessera
