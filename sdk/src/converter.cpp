#include "tessera/converter.hpp"

#include <fmt/ranges.h>

#include <algorithm>

#include "tessera/error.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

namespace {

// Another class of the same model_type has other layers, or other ends.
void claim_class(Claims& theirs, std::initializer_list<std::string_view> known) {
  const Value* value = theirs.find("architectures");
  if (value == nullptr) return;
  const auto* names = std::get_if<Value::Array>(&value->data);
  const bool fits =
      names != nullptr && std::ranges::all_of(*names, [&](const Value& name) {
        return std::ranges::any_of(known, [&](std::string_view one) { return name == Value(one); });
      });
  if (fits) return;
  fail_config("{} has architectures = {}; the converter reads {}",
              theirs.file(),
              written_plain(value->text()),
              fmt::join(known, " and "));
}

}  // namespace

void claim_common_keys(Claims& theirs, std::initializer_list<std::string_view> architectures) {
  claim_class(theirs, architectures);
  // Names, versions, and how a program runs the model.
  theirs.harmless({"_name_or_path", "_commit_hash", "model_type"});
  theirs.harmless({"transformers_version", "torch_dtype", "dtype", "torchscript"});
  theirs.harmless({"use_cache", "return_dict", "output_attentions", "output_hidden_states"});
  theirs.harmless({"output_past", "gradient_checkpointing", "chunk_size_feed_forward"});
  theirs.harmless({"attn_implementation", "_attn_implementation*", "experts_implementation"});
  theirs.harmless({"use_bfloat16", "tf_legacy_loss", "is_decoder", "tie_encoder_decoder"});
  // Heads and tasks that have tensors of their own, which are errors where they are there.
  theirs.harmless(
      {"id2label.*", "label2id.*", "num_labels", "_num_labels", "problem_type", "finetuning_task"});
  theirs.harmless({"task_specific_params.*"});
  // Tokens: the host keeps them with the tokenizer.
  theirs.harmless({"bos_token_id", "eos_token_id", "pad_token_id", "sep_token_id"});
  theirs.harmless({"decoder_start_token_id", "prefix", "tokenizer_class"});
  // Defaults of generation, which older versions wrote here.
  theirs.harmless({"max_length", "min_length", "do_sample", "early_stopping", "num_beams"});
  theirs.harmless({"num_beam_groups", "diversity_penalty", "temperature", "top_k", "top_p"});
  theirs.harmless({"typical_p", "repetition_penalty", "length_penalty", "no_repeat_ngram_size"});
  theirs.harmless({"encoder_no_repeat_ngram_size", "bad_words_ids", "num_return_sequences"});
  theirs.harmless({"output_scores", "return_dict_in_generate", "forced_bos_token_id"});
  theirs.harmless({"forced_eos_token_id", "remove_invalid_values", "suppress_tokens"});
  theirs.harmless({"exponential_decay_length_penalty", "begin_suppress_tokens"});

  theirs.only("is_encoder_decoder", false);
  theirs.refuse("quantization_config*", "quantized models are not read");
  theirs.refuse("compression_config*", "compressed models are not read");
  theirs.refuse("auto_map*", "models with code of their own are not read");
  theirs.refuse("pruned_heads*", "models with pruned heads are not read");
  theirs.refuse("adapter*", "merge the adapter into the model first");
}

}  // namespace tessera
