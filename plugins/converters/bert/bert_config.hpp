#pragma once
#include "tessera/converter.hpp"

namespace tessera {

/// The classes of transformers' BERT that have a counterpart here, by what follows the last block.
enum class BertClass { pre_training, masked_lm, model, classification, choice, span };

/// The class that config.json names under "architectures"; without that key, `model`. Throws
/// ConfigError naming one that is not known.
BertClass bert_class(const Settings& theirs);
/// Does it go back to pre-training, with the head `bert_head`?
bool pre_trains(BertClass of);

/// A number of config.json, or what transformers takes where it is left out.
i64 bert_size(Claims& theirs, std::string_view key);

/// Converter::to_ours and Converter::to_theirs of BERT (Devlin et al. 2019).
Settings bert_to_ours(Claims& theirs);
Settings bert_to_theirs(const Settings& ours);

}  // namespace tessera
