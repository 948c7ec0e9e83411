#include "bert_sample.hpp"

#include <algorithm>

#include "philox_words.hpp"
#include "sentence_pair.hpp"

namespace tessera {

std::vector<FieldInfo> bert_fields(bool pairs) {
  std::vector<FieldInfo> fields = {{.name = "tokens"},
                                   {.name = "segments"},
                                   {.name = "targets"},
                                   {.name = "loss_mask", .dtype = DType::u8, .loss = "lm"},
                                   {.name = "last", .dtype = DType::i32}};
  if (pairs) {
    fields.push_back({.name = "label", .length = 1});
    fields.push_back({.name = "label_mask", .dtype = DType::u8, .loss = "order", .length = 1});
  }
  return fields;
}

template <class Draws>
void write_bert_sample(const MaskRules& rules,
                       const Sentences& sentences,
                       bool pairs,
                       i64 length,
                       Draws& draws,
                       const SampleBuffers& out) {
  SentencePair pair{sentences.tokens, {}};
  if (pairs) pair = draw_pair(std::span(sentences.tokens), sentences.ends, draws);
  shorten(pair, sentences.target, draws);

  auto* tokens = static_cast<i64*>(out.fields[0]);
  auto* segments = static_cast<i64*>(out.fields[1]);
  auto* targets = static_cast<i64*>(out.fields[2]);
  auto* loss_mask = static_cast<u8*>(out.fields[3]);
  auto* last = static_cast<i32*>(out.fields[4]);
  i64 count = 0;
  const auto put = [&](i64 token, i64 segment) {
    tokens[count] = token;
    segments[count++] = segment;
  };
  put(rules.cls, 0);
  for (const i64 token : pair.first) put(token, 0);
  put(rules.sep, 0);
  for (const i64 token : pair.second) put(token, 1);
  if (!pair.second.empty()) put(rules.sep, 1);
  const auto used = static_cast<std::size_t>(count);
  mask_words(rules,
             sentences.target,
             draws,
             std::span(tokens, used),
             std::span(targets, used),
             std::span(loss_mask, used));
  std::fill_n(last, count, static_cast<i32>(count - 1));
  for (i64 i = count; i < length; ++i) {
    tokens[i] = rules.pad;
    segments[i] = targets[i] = 0;
    loss_mask[i] = 0;
    last[i] = -1;
  }
  if (!pairs) return;
  *static_cast<i64*>(out.fields[5]) = pair.swapped ? 1 : 0;
  *static_cast<u8*>(out.fields[6]) = 1;
}

template void write_bert_sample(
    const MaskRules&, const Sentences&, bool, i64, NumpyDraws<std::mt19937>&, const SampleBuffers&);
template void write_bert_sample(
    const MaskRules&, const Sentences&, bool, i64, NumpyDraws<PhiloxWords>&, const SampleBuffers&);

}  // namespace tessera
