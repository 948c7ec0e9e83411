// BERT (Devlin et al. 2019) as transformers stores it.
#include <algorithm>

#include "bert_config.hpp"
#include "bert_tensors.hpp"
#include "tessera/io/json.hpp"
#include "tessera/log.hpp"
#include "tessera/plugin.hpp"

namespace tessera {

class BertConverter final : public Converter {
 public:
  using Config = NoConfig;
  BertConverter(const Config&, ConverterArguments&) {}

 private:
  std::string_view do_model_type() const override { return "bert"; }
  std::string_view do_optional_prefix() const override { return kBertPrefix; }
  Settings do_to_ours(Claims& theirs) const override { return bert_to_ours(theirs); }
  Settings do_to_theirs(const Settings& ours) const override { return bert_to_theirs(ours); }

  TokenizerFiles do_tokenizer_files() const override {
    return {.sets = {{"tokenizer.json"}, {"vocab.txt"}},
            .others = {"tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"}};
  }
  Settings do_tokenizer(const std::string& folder,
                        const std::vector<std::string>& files,
                        const Settings& theirs) const override {
    if (std::ranges::find(files, "tokenizer.json") != files.end()) {
      return tokenizer_in(folder, "huggingface", theirs);
    }
    return {{"tokenizer.type", "wordpiece"}, {"tokenizer.path", folder}};
  }
  std::string do_tokenizer_config(const Tokenizer&, const Settings& ours) const override {
    Json config;
    config.add("tokenizer_class", "BertTokenizer");
    const auto lowercase = ours.find("tokenizer.lowercase");
    if (lowercase != ours.end()) {
      if (const auto* said = std::get_if<bool>(&lowercase->second.data)) {
        config.add("do_lower_case", *said);
      }
    }
    return config.text() + "\n";
  }
  // What sentence-transformers adds says how vectors of texts are made of the model's rows.
  bool do_harmless_file(std::string_view name) const override {
    if (name == "sentence_bert_config.json") {
      log_info("{} is not kept: texts are cut at batch.sequence_length", name);
      return true;
    }
    return name == "modules.json" ||  // convert tells what it lists
           name == "config_sentence_transformers.json" || name == "data_config.json";
  }
  std::vector<ConvertedTensor> do_tensors(const Settings& theirs) const override {
    return bert_tensors(theirs);
  }
  std::vector<SharedTensor> do_shared(const Settings& theirs) const override {
    return bert_shared(theirs);
  }
  // The numbers 0, 1, 2, … of positions.
  bool do_redundant(std::string_view name, const Settings&) const override {
    return name == "embeddings.position_ids";
  }
};

}  // namespace tessera

TESSERA_PLUGIN(convert_bert, "0.1.0", "BERT of Hugging Face transformers") {
  registrar.add<tessera::Converter, tessera::BertConverter>(
      "bert", "BertForPreTraining and classes like it of Hugging Face transformers, both ways");
}
