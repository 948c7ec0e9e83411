#pragma once
#include <string_view>
#include <vector>

#include "tessera/converter.hpp"

namespace tessera {

/// A prefix of names that files of a BertModel leave out.
inline constexpr std::string_view kBertPrefix = "bert.";

/// Converter::tensors of BERT. What a class lacks of the head `bert_head` is optional.
std::vector<ConvertedTensor> bert_tensors(const Settings& theirs);
/// The tied table and bias, and the names that the first programs gave to norms.
std::vector<SharedTensor> bert_shared(const Settings& theirs);

}  // namespace tessera
