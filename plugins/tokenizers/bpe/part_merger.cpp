#include "part_merger.hpp"

namespace tessera {

// Whether a part belongs to the one before it.
bool PartMerger::joins(bool matches) const {
  switch (behavior_) {
    case Delimiter::contiguous:
      return matches == matched_;
    case Delimiter::merged_with_previous:
      return matches && !matched_;
    case Delimiter::merged_with_next:
      return !matches && matched_;
    default:
      return false;
  }
}

void PartMerger::add(std::string_view part, bool matches) {
  const auto begin = static_cast<std::size_t>(part.data() - text_.data());
  if (waits_ && joins(matches)) {
    end_ = begin + part.size();
    matched_ = matches;
    return;
  }
  finish();
  if (matches && behavior_ == Delimiter::removed) return;
  begin_ = begin;
  end_ = begin + part.size();
  waits_ = true;
  matched_ = matches;
}

void PartMerger::finish() {
  if (waits_ && end_ > begin_) take_(text_.substr(begin_, end_ - begin_));
  waits_ = false;
}

}  // namespace tessera
