#include "kernel/train/data/embedded_texts.hpp"

#include <algorithm>
#include <numeric>

#include "tessera/error.hpp"

namespace tessera {

namespace {

i32 required(const std::optional<i32>& id, std::string_view name) {
  if (!id) fail_config("the tokenizer has no {}, between which a text stands", name);
  return *id;
}

}  // namespace

EmbeddedTexts::EmbeddedTexts(const Tokenizer& tokenizer,
                             std::span<const std::string> texts,
                             i64 sequence_length,
                             i64 longest)
    : length_(sequence_length) {
  const SpecialIds special = tokenizer.special_ids();
  const i32 cls = required(special.cls, "[CLS]"), sep = required(special.sep, "[SEP]");
  pad_ = special.pad.value_or(0);
  const auto encoder = tokenizer.encoder();
  const auto most = static_cast<std::size_t>(longest - 1);
  for (const std::string& text : texts) {
    std::vector<i32>& ids = tokens_.emplace_back(1, cls);
    encoder->append(text, ids);
    if (ids.size() > most) {
      ids.resize(most);
      ++cut_;
    }
    ids.push_back(sep);
  }
  // The longest first, each into the fullest sample that has room for it: best fit, decreasing.
  std::vector<std::size_t> order(texts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(
      order, std::ranges::greater(), [&](std::size_t text) { return tokens_[text].size(); });
  places_.resize(texts.size());
  std::vector<std::vector<i64>> by_room(static_cast<std::size_t>(length_) + 1);
  for (const std::size_t text : order) {
    const auto tokens = static_cast<i64>(tokens_[text].size());
    auto room = by_room.begin() + tokens;
    while (room != by_room.end() && room->empty()) ++room;
    i64 sample = static_cast<i64>(samples_.size()), left = length_;
    if (room == by_room.end()) {
      samples_.emplace_back();
    } else {
      sample = room->back();
      left = room - by_room.begin();
      room->pop_back();
    }
    places_[text] = {sample, length_ - left, tokens};
    samples_[static_cast<std::size_t>(sample)].push_back(text);
    by_room[static_cast<std::size_t>(left - tokens)].push_back(sample);
  }
}

std::vector<FieldInfo> EmbeddedTexts::field_list() {
  return {{"tokens", DType::i64},
          {"segments", DType::i64},
          {"positions", DType::i64},
          {"first", DType::i32},
          {"last", DType::i32}};
}

void EmbeddedTexts::do_read(SampleSet, i64 ordinal, const SampleBuffers& out) const {
  auto* tokens = static_cast<i64*>(out.fields[0]);
  auto* segments = static_cast<i64*>(out.fields[1]);
  auto* positions = static_cast<i64*>(out.fields[2]);
  auto* first = static_cast<i32*>(out.fields[3]);
  auto* last = static_cast<i32*>(out.fields[4]);
  std::fill_n(tokens, length_, pad_);
  std::fill_n(segments, length_, 0);
  std::fill_n(positions, length_, 0);
  std::fill_n(first, length_, 0);
  std::fill_n(last, length_, -1);  // padding sees nothing
  for (const std::size_t text : samples_.at(static_cast<std::size_t>(ordinal))) {
    const Place& place = places_[text];
    std::ranges::copy(tokens_[text], tokens + place.first);
    std::iota(positions + place.first, positions + place.first + place.tokens, 0);
    std::fill_n(first + place.first, place.tokens, static_cast<i32>(place.first));
    std::fill_n(last + place.first, place.tokens, static_cast<i32>(place.first + place.tokens - 1));
  }
}

}  // namespace tessera
