#include "pack.hpp"

#include <algorithm>

#include "tessera/error.hpp"

namespace tessera {

PairMarks::PairMarks(const Tokenizer& tokenizer) {
  const SpecialIds ids = tokenizer.special_ids();
  if (!ids.cls || !ids.sep) {
    fail_config("tokenizer: pairs of texts are joined by [CLS] and [SEP], and it has no {} ({})",
                ids.cls ? "[SEP]" : "[CLS]",
                tokenizer.fingerprint());
  }
  cls = *ids.cls;
  sep = *ids.sep;
  pad = ids.pad.value_or(0);
}

void TokenLists::add(std::string_view text, i64 most) {
  const std::size_t begin = ids_.size();
  encoder_->append(text, ids_);
  if (static_cast<i64>(ids_.size() - begin) > most) {
    ids_.resize(begin + static_cast<std::size_t>(most));
  }
  end(begin);
}

void TokenLists::add(const std::vector<i32>& ids) {
  const std::size_t begin = ids_.size();
  ids_.insert(ids_.end(), ids.begin(), ids.end());
  end(begin);
}

void TokenLists::end(std::size_t begin) {
  for (std::size_t i = begin; vocabulary_ > 0 && i < ids_.size(); ++i) {
    if (ids_[i] < vocabulary_) continue;
    fail_config("tokenizer: a text has token {}, and the model has a vocabulary of {}",
                ids_[i],
                vocabulary_);
  }
  ends_.push_back(ids_.size());
}

std::span<const i32> TokenLists::operator[](i64 number) const {
  const auto at = static_cast<std::size_t>(number);
  return std::span(ids_).subspan(ends_[at], ends_[at + 1] - ends_[at]);
}

i64 pack_pair(const PairMarks& marks,
              std::span<const i32> a,
              std::span<const i32> b,
              i64 length,
              i64 begin,
              const PairPlaces& out) {
  i64 at = 0;
  const auto put = [&](i64 token, i64 segment) {
    if (at == length - 1) return;  // which is the last [SEP]
    out.tokens[at] = token;
    out.segments[at++] = segment;
  };
  put(marks.cls, 0);
  for (const i32 token : a) put(token, 0);
  put(marks.sep, 0);
  for (const i32 token : b) put(token, 1);
  out.tokens[at] = marks.sep;
  out.segments[at++] = 1;
  std::fill_n(out.last, at, static_cast<i32>(begin + at - 1));
  std::fill_n(out.tokens + at, length - at, marks.pad);
  std::fill_n(out.segments + at, length - at, i64{0});
  std::fill_n(out.last + at, length - at, i32{-1});
  return at;
}

}  // namespace tessera
