#pragma once
#include <span>
#include <vector>

#include "tessera/data.hpp"
#include "word_masks.hpp"

namespace tessera {

/// Sentences that become a sample.
struct Sentences {
  std::vector<i64> tokens, ends;  ///< of all; where each sentence ends among them
  i64 target = 0;                 ///< so many tokens are kept of more
};

/// tokens, segments, targets, loss_mask, last; of `pairs` label and label_mask, too.
std::vector<FieldInfo> bert_fields(bool pairs);

/// Writes them: [CLS] A [SEP] B [SEP] with masked words, then padding, which sees nothing (`last`
/// is -1). Without `pairs` all is A. Draws: see mask_words.
template <class Draws>
void write_bert_sample(const MaskRules& rules,
                       const Sentences& sentences,
                       bool pairs,
                       i64 length,
                       Draws& draws,
                       const SampleBuffers& out);

}  // namespace tessera
