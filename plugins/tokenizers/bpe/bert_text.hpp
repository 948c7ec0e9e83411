#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer_file.hpp"

namespace tessera {

/// A token's role as files name it, and what it is where they do not say.
struct BertRole {
  std::string_view key, text;
};
inline constexpr BertRole kBertRoles[] = {{"unk_token", "[UNK]"},
                                          {"sep_token", "[SEP]"},
                                          {"pad_token", "[PAD]"},
                                          {"cls_token", "[CLS]"},
                                          {"mask_token", "[MASK]"}};

/// How BERT (Devlin et al. 2018) changes a text before it is cut into words.
struct BertText {
  bool clean = true, space_ideographs = true, strip_accents = true, lowercase = true;
};
std::vector<NormalizerStep> bert_steps(const BertText& text);
/// Its words: white space goes, marks of punctuation are words of their own.
std::vector<SplitStep> bert_splits();

/// The steps `clean`, `space_ideographs` and `strip_marks` of a text in UTF-8.
std::string cleaned(std::string_view text);
std::string with_spaced_ideographs(std::string_view text);
std::string without_marks(std::string_view text);

}  // namespace tessera
