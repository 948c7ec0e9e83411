#include "sample_fields.hpp"

#include <algorithm>
#include <numeric>

namespace tessera {
std::vector<FieldInfo> sample_fields(const DocumentFields& wanted) {
  std::vector<FieldInfo> fields = {{.name = "tokens"},
                                   {.name = "targets"},
                                   {.name = "loss_mask", .dtype = DType::u8, .loss = "lm"}};
  if (wanted.positions) fields.push_back({.name = "positions"});
  if (wanted.attention) {
    fields.push_back({.name = "first", .dtype = DType::i32});
    fields.push_back({.name = "last", .dtype = DType::i32});
  }
  return fields;
}

void write_fields(const Sample& sample,
                  const TokenSource& source,
                  const DocumentFields& wanted,
                  i64 length,
                  i64 vocabulary,
                  std::string_view owner,
                  const SampleBuffers& out) {
  auto field = out.fields.begin();
  auto* tokens = static_cast<i64*>(*field++);
  auto* targets = static_cast<i64*>(*field++);
  auto* mask = static_cast<u8*>(*field++);
  auto* positions = wanted.positions ? static_cast<i64*>(*field++) : nullptr;
  auto* first = wanted.attention ? static_cast<i32*>(*field++) : nullptr;
  auto* last = wanted.attention ? static_cast<i32*>(*field++) : nullptr;

  // Ids [begin, begin + count) of the source.
  const auto copy = [&](i64 begin, i64 count, i64* to) {
    copy_ids(source, begin, count, to, vocabulary, owner);
  };
  std::fill_n(mask, length, u8{1});
  i64 at = 0;
  for (const Piece& piece : sample.pieces) {
    const i64 here = std::min(piece.count, length - at);
    copy(piece.begin, here, tokens + at);
    if (sample.packed) {
      copy(piece.begin + 1, here, targets + at);
    } else if (here < piece.count) {  // the token after the sample
      copy(piece.begin + here, 1, targets + length - 1);
    }
    if (positions != nullptr) std::iota(positions + at, positions + at + here, i64{0});
    if (wanted.attention && here > 0) {
      std::fill_n(first + at, here, static_cast<i32>(at));
      std::fill_n(last + at, here, static_cast<i32>(at + here - 1));
    }
    std::fill_n(mask + at, std::min(piece.quiet, here), u8{0});
    if (wanted.mask_ends && piece.ends && here == piece.count) mask[at + here - 1] = 0;
    at += piece.count;
  }
  if (!sample.packed) std::copy(tokens + 1, tokens + std::min(at, length), targets);
  for (i64 i = at; i < length; ++i) {
    tokens[i] = targets[i] = 0;
    mask[i] = 0;
    if (positions != nullptr) positions[i] = 0;
    if (wanted.attention) first[i] = last[i] = static_cast<i32>(i);
  }
  if (!sample.packed && at > 0 && at <= length) {  // nothing follows the last token
    targets[at - 1] = 0;
    mask[at - 1] = 0;
  }
}

}  // namespace tessera
