#pragma once
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/api.hpp"
#include "tessera/base/identified.hpp"
#include "tessera/data.hpp"
#include "tessera/io/claims.hpp"

namespace tessera {

/// Where a tensor of the other format begins in a parameter here that several of them make up.
struct TileBegin {
  i64 row = 0, column = 0;
  /// Which entry of the parameter's first dimension it is, as an expert's; their tensor lacks that
  /// dimension, and row and column count along the next two.
  std::optional<i64> entry = {};
};

/// A parameter or saved buffer here and the tensor of the other format that holds the same values,
/// or some of them. Several tensors of one parameter are tiles of a grid: each reaches to where the
/// next begins.
///
///     {"mlp.up.weight", "mlp.gate_proj.weight"},                         // rows 0 to ffn - 1
///     {"mlp.up.weight", "mlp.up_proj.weight", false, {.row = ffn}},      // the other rows
///     {"experts.up", "experts.1.w3.weight", true, {.column = ffn, .entry = 1}},
///
/// The host refuses gaps, overlaps and other sizes before it writes anything.
struct ConvertedTensor {
  std::string ours;         ///< logical name: "layers.0.attention.qkv.weight"
  std::string theirs;       ///< in its files: "transformer.h.0.attn.c_attn.weight"
  bool transposed = false;  ///< a matrix that is [in, out] there and [out, in] here
  TileBegin at = {};        ///< of the tensor as it lies here, after it is transposed
  /// Files may lack it, as a head's: the checkpoint then lacks the parameter, and a run that begins
  /// with it (`checkpoint.init_from`) gives it initial values. A parameter of tiles has all or
  /// none.
  bool optional = false;
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

/// A key of config.json that is null is left out of its settings, and for some models that is
/// another model than no key at all. So {null_key("sliding_window"), true} is among them for each
/// that is null, and among those that a converter returns where one is to be written as null.
inline std::string null_key(std::string_view key) { return "null." + std::string(key); }

/// A checkpoint may lack parameters, as those of a folder did whose optional tensors were missing.
/// For each of them {lacks_key("head.bias"), true} is among the settings of to_theirs().
inline std::string lacks_key(std::string_view parameter) {
  return "lacks." + std::string(parameter);
}

/// Numbers of tokens by key of config.json, "eos_token_id"; none is written as null.
using TokenIds = std::map<std::string, std::optional<i64>>;

struct ConverterArguments {};

/// Claims what config.json of any model of transformers may hold: names, versions, dtypes, which
/// outputs are given, defaults of generation are harmless; the host keeps numbers of tokens.
/// Quantization, code of the model's own, adapters, pruned heads and a class of the model that is
/// none of `architectures` are refused.
TESSERA_API void claim_common_keys(Claims& theirs,
                                   std::initializer_list<std::string_view> architectures);

/// The same for a language model of `name`, a class with a head, and warns where config.json names
/// `without_head` instead: the model is read as `name` then.
TESSERA_API void claim_language_model(Claims& theirs,
                                      std::string_view name,
                                      std::string_view without_head);

/// A model of ours as to_theirs() reads it; `format` names the other format in errors ("GPT-2"),
/// which are ConfigErrors that name the key. For one thread.
class TESSERA_API ModelKeys {
 public:
  ModelKeys(const Settings& ours, std::string format) : ours_(ours), format_(std::move(format)) {}
  /// nullptr where there is none, as below a type that has no such key.
  const Value* find(const std::string& key) const;
  const Value& at(const std::string& key) const;
  /// The value at `key`, or `otherwise` where it is "auto".
  Value at(const std::string& key, const Value& otherwise) const;
  i64 integer(const std::string& key) const;
  /// The value of keys that must be equal here, because they are one key there.
  const Value& same(const std::vector<std::string>& keys) const;
  /// The other format has this value only.
  void only(const std::string& key, const Value& value) const;
  void only(const Settings& values) const;
  /// A pattern may name kinds of blocks; there, all of them are as [model.block] is.
  void only_one_kind() const;

 private:
  const Settings& ours_;
  std::string format_;
};

/// Keys that only complete a configuration: a name, and sizes of batches that hold `positions`.
TESSERA_API Settings usual_run(std::string_view name, i64 positions);

/// The keys of a tokenizer of this type that reads `folder`, for Converter::tokenizer(): the model
/// has no rows for more tokens than config.json's "vocab_size".
TESSERA_API Settings tokenizer_in(const std::string& folder,
                                  std::string_view type,
                                  const Settings& theirs);

/// The number of a text that is one token.
TESSERA_API std::optional<i64> token_of(const Tokenizer& tokenizer, const std::string& text);

/// "bos_token_id" and "eos_token_id" of the tokens that a tokenizer_config.json names, for
/// Converter::token_ids(); `otherwise` is the text of those that it does not name. What is left is
/// as the tokenizer's own files have it.
TESSERA_API TokenIds named_tokens(const Tokenizer* tokenizer,
                                  const Settings& written,
                                  const std::optional<std::string>& otherwise);

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
  /// every key of the resolved configuration below "model." and "batch.", and a lacks_key() for
  /// each parameter that the checkpoint lacks; a "model.vocab" that came from a tokenizer is the
  /// number that it had. Throws ConfigError naming what the other format cannot say. The host reads
  /// back what is returned, with to_ours(): a model of other parameters is an error, a key below
  /// "model." with another value a warning.
  Settings to_theirs(const Settings& ours) const;
  /// Where one of the sets is there, they and the others are copied to `folder`, an absolute path,
  /// and tokenizer() gives the keys below "tokenizer." that read them there; `files` are the names
  /// of those that are copied, which may not lie there yet. A folder with a tokenizer of other
  /// files is an error unless the user asks for the model alone.
  TokenizerFiles tokenizer_files() const;
  Settings tokenizer(const std::string& folder,
                     const std::vector<std::string>& files,
                     const Settings& theirs) const;
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
  /// Every parameter and saved buffer of the model that `theirs` describes, once, or its tiles.
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
  virtual Settings do_tokenizer(const std::string& /*folder*/,
                                const std::vector<std::string>& /*files*/,
                                const Settings& /*theirs*/) const {
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
