#pragma once
#include <functional>
#include <string_view>

#include "tokenizer_file.hpp"

namespace tessera {

/// Joins matches of a pattern and what lies between them, which come one after the other, as a
/// Delimiter says. For one text.
class PartMerger {
 public:
  /// Parts without a byte are left out. Both outlive it.
  using Take = std::function<void(std::string_view)>;
  PartMerger(std::string_view text, Delimiter behavior, const Take& take)
      : text_(text), behavior_(behavior), take_(take) {}
  /// The next part of the text.
  void add(std::string_view part, bool matches);
  /// After the last one.
  void finish();

 private:
  bool joins(bool matches) const;

  std::string_view text_;
  Delimiter behavior_;
  const Take& take_;
  std::size_t begin_ = 0, end_ = 0;  // the part that waits for the next one
  bool waits_ = false, matched_ = false;
};

}  // namespace tessera
