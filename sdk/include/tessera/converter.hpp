#pragma once
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/api.hpp"
#include "tessera/base/identified.hpp"
#include "tessera/data.hpp"
#include "tessera/io/claims.hpp"

namespace tessera {

/// A parameter here and the tensor of the other format that holds the same values.
struct ConvertedTensor {
  std::string ours;         ///< logical name: "layers.0.attention.qkv.weight"
  std::string theirs;       ///< in its files: "transformer.h.0.attn.c_attn.weight"
  bool transposed = false;  ///< a matrix that is [in, out] there and [out, in] here
};

/// A tensor of their files that is a second name of another one, as a tied output table.
struct SharedTensor {
  std::string name, of;  ///< "lm_head.weight", "transformer.wte.weight"
  /// Keys of config.json that make them two tensors: {"tie_word_embeddings", false}. Where the
  /// files hold other values under the two names, the model is read with these. Empty: that is an
  /// error.
  Settings apart = {};
};

/// Which files of their folder say how text becomes tokens.
struct TokenizerFiles {
  /// Each of these sets is enough: {{"tokenizer.json"}, {"vocab.json", "merges.txt"}}.
  std::vector<std::vector<std::string>> sets = {};
  std::vector<std::string> others = {};  ///< copied too where they are there
};

/// Numbers of tokens by key of config.json, "eos_token_id"; none is written as null.
using TokenIds = std::map<std::string, std::optional<i64>>;

struct ConverterArguments {};

/// Claims what config.json of any model of transformers may hold: names, versions, dtypes, which
/// outputs are given, defaults of generation are harmless; the host keeps numbers of tokens.
/// Quantization, code of the model's own, adapters, pruned heads and a class of the model that is
/// none of `architectures` are refused.
TESSERA_API void claim_common_keys(Claims& theirs,
                                   std::initializer_list<std::string_view> architectures);

/// Translates models between Tessera and the format of Hugging Face transformers: a folder with a
/// config.json and safetensors files. Plugin kind "converter"; `tessera convert` finds it by the
/// "model_type" of config.json, or by its name. It says what corresponds to what; the host reads
/// and writes the files, so values keep their bits in both directions. Const functions of the
/// arguments alone, called on one thread.
///
/// A minimal one:
///
///     class Bigram final : public Converter {
///      public:
///       using Config = NoConfig;
///       Bigram(const Config&, ConverterArguments&) {}
///       std::string_view model_type() const override { return "bigram"; }
///       Settings to_ours(Claims& theirs) const override {
///         claim_common_keys(theirs, {"BigramModel"});
///         return {{"model.type", "bigram"}, {"model.vocab", theirs.integer("vocab_size")}};
///       }
///       Settings to_theirs(const Settings& ours) const override {
///         return {{"vocab_size", ours.at("model.vocab")}};
///       }
///       std::vector<ConvertedTensor> tensors(const Settings&) const override {
///         return {{"embedding.weight", "logits.weight"}};
///       }
///     };
class TESSERA_API Converter : public Identified {
 public:
  static constexpr std::string_view kKind = "converter";
  using Arguments = ConverterArguments;

  ~Converter() override;
  /// What config.json says under "model_type".
  std::string_view model_type() const;
  /// A complete configuration of the same model here. Keys below "model." and "batch." are its own,
  /// and are written to a file for the user; others ("lr.peak") only complete it. `theirs` has the
  /// keys of config.json; each is read, or said to be harmless, or refused, and one that is left is
  /// an error of the host. Throws ConfigError naming what has no counterpart.
  Settings to_ours(Claims& theirs) const;
  /// The inverse: the keys of config.json but for "model_type", which the host adds. `ours` has
  /// every key of the resolved configuration below "model." and "batch."; a "model.vocab" that came
  /// from a tokenizer is the number that it had. Throws ConfigError naming what the other format
  /// cannot say. The host reads back what is returned, with to_ours(): a model of other parameters
  /// is an error, a key below "model." with another value a warning.
  Settings to_theirs(const Settings& ours) const;
  /// Where one of the sets is there, they and the others are copied to `folder`, an absolute path,
  /// and tokenizer() gives the keys below "tokenizer." that read them. A folder with a tokenizer of
  /// other files is an error unless the user asks for the model alone.
  TokenizerFiles tokenizer_files() const;
  Settings tokenizer(const std::string& folder, const Settings& theirs) const;
  /// Numbers from the model's tokenizer, nullptr where it is not converted. `written` has the keys
  /// of the tokenizer_config.json that goes into the folder. Numbers that the model came with go
  /// before these: `tessera convert` keeps them with the tokenizer.
  TokenIds token_ids(const Tokenizer* tokenizer, const Settings& written) const;
  /// The tokenizer_config.json of a folder whose tokenizer has none; `ours` are the run's keys
  /// below "tokenizer.". Empty: none is written.
  std::string tokenizer_config(const Tokenizer& tokenizer, const Settings& ours) const;
  /// Is this a file of their folder that changes nothing, though the host does not know it? Pages,
  /// pictures, weights of other formats and states of trainings are known.
  bool harmless_file(std::string_view name) const;
  /// Every parameter of the model that `theirs` describes, once.
  std::vector<ConvertedTensor> tensors(const Settings& theirs) const;
  /// A prefix of their names that some files leave out: "transformer.".
  std::string_view optional_prefix() const;
  /// Tensors that have a second name. They are not among tensors(); where the files have only one
  /// of the two names, it is taken for the other.
  std::vector<SharedTensor> shared(const Settings& theirs) const;
  /// Is this a tensor of their files without values of its own, as a mask? `name` is without the
  /// optional prefix. All others have to be among tensors() or shared().
  bool redundant(std::string_view name, const Settings& theirs) const;

 private:
  virtual std::string_view do_model_type() const = 0;
  virtual Settings do_to_ours(Claims& theirs) const = 0;
  virtual Settings do_to_theirs(const Settings& ours) const = 0;
  virtual TokenizerFiles do_tokenizer_files() const { return {}; }
  virtual Settings do_tokenizer(const std::string& /*folder*/, const Settings& /*theirs*/) const {
    return {};
  }
  virtual TokenIds do_token_ids(const Tokenizer* /*tokenizer*/, const Settings& /*written*/) const {
    return {};
  }
  virtual std::string do_tokenizer_config(const Tokenizer& /*tokenizer*/,
                                          const Settings& /*ours*/) const {
    return {};
  }
  virtual bool do_harmless_file(std::string_view /*name*/) const { return false; }
  virtual std::vector<ConvertedTensor> do_tensors(const Settings& theirs) const = 0;
  virtual std::string_view do_optional_prefix() const { return {}; }
  virtual std::vector<SharedTensor> do_shared(const Settings& /*theirs*/) const { return {}; }
  virtual bool do_redundant(std::string_view /*name*/, const Settings& /*theirs*/) const {
    return false;
  }
};

}  // namespace tessera
