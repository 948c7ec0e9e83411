#include "tessera/converter.hpp"

#include <fmt/ranges.h>

#include <algorithm>

#include "tessera/error.hpp"
#include "tessera/io/written.hpp"
#include "tessera/log.hpp"

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

void claim_language_model(Claims& theirs, std::string_view name, std::string_view without_head) {
  claim_common_keys(theirs, {name, without_head});
  const Value* names = theirs.find("architectures");
  if (names == nullptr || *names == Value(Value::Array{name})) return;
  log_warning("{} has architectures = {}: the model is read as {}, whose head it may lack",
              theirs.file(),
              names->text(),
              name);
}

const Value* ModelKeys::find(const std::string& key) const {
  const auto found = ours_.find(key);
  return found == ours_.end() ? nullptr : &found->second;
}

const Value& ModelKeys::at(const std::string& key) const {
  if (const Value* value = find(key)) return *value;
  fail_config("the model has no \"{}\": it is no {}", key, format_);
}

Value ModelKeys::at(const std::string& key, const Value& otherwise) const {
  const Value& value = at(key);
  return value == Value("auto") ? otherwise : value;
}

i64 ModelKeys::integer(const std::string& key) const {
  const Value& value = at(key);
  if (const auto* number = std::get_if<i64>(&value.data)) return *number;
  fail_config("{} = {} is no number, which {} needs", key, value.text(), format_);
}

const Value& ModelKeys::same(const std::vector<std::string>& keys) const {
  const Value& first = at(keys.at(0));
  for (const std::string& key : keys) {
    if (same_value(at(key), first)) continue;
    fail_config("{} = {} and {} = {}: {} has one value for both",
                keys[0],
                first.text(),
                key,
                at(key).text(),
                format_);
  }
  return first;
}

void ModelKeys::only(const std::string& key, const Value& value) const {
  if (same_value(at(key), value)) return;
  fail_config("{} = {}; {} has {}", key, at(key).text(), format_, value.text());
}

void ModelKeys::only(const Settings& values) const {
  for (const auto& [key, value] : values) only(key, value);
}

void ModelKeys::only_one_kind() const {
  constexpr std::string_view kKinds = "model.blocks.";
  for (auto at = ours_.lower_bound(kKinds); at != ours_.end(); ++at) {
    const auto& [key, value] = *at;
    if (!key.starts_with(kKinds)) return;
    const Value* block = find("model.block" + key.substr(key.find('.', kKinds.size())));
    if (block != nullptr && *block == value) continue;
    fail_config("{} = {} differs from [model.block]: {} has blocks of one kind",
                key,
                value.text(),
                format_);
  }
}

Settings usual_run(std::string_view name, i64 positions) {
  return {{"batch.global", 1},
          {"batch.micro", 1},
          {"batch.sequence_length", positions},
          {"run.name", name},
          {"run.steps", 1},
          {"lr.peak", 1e-5},
          {"data.type", "text"},
          {"data.path", "text.txt"}};
}

Settings tokenizer_in(const std::string& folder, std::string_view type, const Settings& theirs) {
  Settings ours = {{"tokenizer.type", type}, {"tokenizer.path", folder}};
  if (const auto rows = theirs.find("vocab_size"); rows != theirs.end()) {
    ours["tokenizer.most_tokens"] = rows->second;
  }
  return ours;
}

std::optional<i64> token_of(const Tokenizer& tokenizer, const std::string& text) {
  const std::vector<i32> ids = tokenizer.encode(text, SpecialTexts::parsed);
  return ids.size() == 1 ? std::optional<i64>(ids[0]) : std::nullopt;
}

TokenIds named_tokens(const Tokenizer* tokenizer,
                      const Settings& written,
                      const std::optional<std::string>& otherwise) {
  TokenIds ids;
  const SpecialIds own = tokenizer == nullptr ? SpecialIds() : tokenizer->special_ids();
  for (const std::string name : {"bos_token", "eos_token"}) {
    std::optional<std::string> text = otherwise;
    for (const std::string& key : {name, name + ".content"}) {  // a text, or an object with one
      const auto found = written.find(key);
      if (found == written.end()) continue;
      if (const auto* said = std::get_if<std::string>(&found->second.data)) text = *said;
    }
    std::optional<i64>& id = ids[name + "_id"];
    if (tokenizer != nullptr && text) {
      id = token_of(*tokenizer, *text);
    } else if (name == "bos_token") {
      id = own.bos;
    } else if (!own.eos.empty()) {
      id = own.eos[0];
    }
  }
  return ids;
}

}  // namespace tessera
