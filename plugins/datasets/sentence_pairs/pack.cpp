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

namespace {

// Tokens from the place of [CLS] on; all but the last place, which is a [SEP], take what is put.
class Packed {
 public:
  Packed(const PairMarks& marks, i64 length, i64 begin, const PairPlaces& out)
      : marks_(marks), length_(length), begin_(begin), out_(out) {}

  void put(i64 token, i64 segment) {
    if (at_ < length_ - 1) write(token, segment);
  }
  void put(std::span<const i32> tokens, i64 segment) {
    for (const i32 token : tokens) put(token, segment);
  }
  i64 end(i64 segment) {
    write(marks_.sep, segment);
    const i64 rest = length_ - at_;
    std::fill_n(out_.last, at_, static_cast<i32>(begin_ + at_ - 1));
    std::fill_n(out_.tokens + at_, rest, marks_.pad);
    std::fill_n(out_.segments + at_, rest, i64{0});
    std::fill_n(out_.last + at_, rest, i32{-1});
    return at_;
  }

 private:
  void write(i64 token, i64 segment) {
    out_.tokens[at_] = token;
    out_.segments[at_++] = segment;
  }

  const PairMarks& marks_;
  i64 length_, begin_, at_ = 0;
  const PairPlaces& out_;
};

}  // namespace

i64 pack_pair(const PairMarks& marks,
              std::span<const i32> a,
              std::span<const i32> b,
              i64 length,
              i64 begin,
              const PairPlaces& out) {
  Packed packed(marks, length, begin, out);
  packed.put(marks.cls, 0);
  packed.put(a, 0);
  packed.put(marks.sep, 0);
  packed.put(b, 1);
  return packed.end(1);
}

i64 pack_text(const PairMarks& marks,
              std::span<const i32> text,
              i64 length,
              i64 begin,
              const PairPlaces& out) {
  Packed packed(marks, length, begin, out);
  packed.put(marks.cls, 0);
  packed.put(text, 0);
  return packed.end(0);
}

}  // namespace tessera
