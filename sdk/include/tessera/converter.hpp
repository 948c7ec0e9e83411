#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/api.hpp"
#include "tessera/value.hpp"

namespace tessera {

/// Settings of a model by dotted name: {"model.hidden": 768} here, {"n_embd": 768} elsewhere.
using Settings = std::map<std::string, Value, std::less<>>;

/// A parameter here and the tensor of the other format that holds the same values.
struct ConvertedTensor {
  std::string ours;         ///< logical name: "layers.0.attention.qkv.weight"
  std::string theirs;       ///< in its files: "transformer.h.0.attn.c_attn.weight"
  bool transposed = false;  ///< a matrix that is [in, out] there and [out, in] here
};

struct ConverterArguments {};

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
///       Settings to_ours(const Settings& theirs) const override {
///         return {{"model.type", "bigram"}, {"model.vocab", theirs.at("vocab_size")}};
///       }
///       Settings to_theirs(const Settings& ours) const override {
///         return {{"vocab_size", ours.at("model.vocab")}};
///       }
///       std::vector<ConvertedTensor> tensors(const Settings&) const override {
///         return {{"embedding.weight", "logits.weight"}};
///       }
///     };
class TESSERA_API Converter {
 public:
  static constexpr std::string_view kKind = "converter";
  using Arguments = ConverterArguments;

  virtual ~Converter();
  /// What config.json says under "model_type".
  virtual std::string_view model_type() const = 0;
  /// A complete configuration of the same model here. Keys below "model." and "batch." are its own,
  /// and are written to a file for the user; others ("lr.peak") only complete it. `theirs` has the
  /// keys of config.json, those of nested objects dotted; null is left out. Throws ConfigError
  /// naming what has no counterpart.
  virtual Settings to_ours(const Settings& theirs) const = 0;
  /// Back: the keys of config.json but for "model_type", which the host adds. `ours` has every key
  /// of the resolved configuration below "model." and "batch."; a "model.vocab" that came from a
  /// tokenizer is the number that it had. Throws ConfigError naming what the other format cannot
  /// say. The host reads back what is returned, with to_ours(): a model of other parameters is an
  /// error, a key below "model." with another value a warning.
  virtual Settings to_theirs(const Settings& ours) const = 0;
  /// Files of its folder that say how text becomes tokens. Where all are there, they are copied to
  /// `folder`, an absolute path, and tokenizer() gives the keys below "tokenizer." that read them.
  virtual std::vector<std::string> tokenizer_files() const { return {}; }
  virtual Settings tokenizer(const std::string& /*folder*/) const { return {}; }
  /// Every parameter of the model that `theirs` describes, once.
  virtual std::vector<ConvertedTensor> tensors(const Settings& theirs) const = 0;
  /// A prefix of their names that some files leave out: "transformer.".
  virtual std::string_view optional_prefix() const { return {}; }
  /// Is this a tensor of their files without values of its own: a mask, a second name of a shared
  /// one? `name` is without the optional prefix. All others have to be among tensors().
  virtual bool redundant(std::string_view /*name*/, const Settings& /*theirs*/) const {
    return false;
  }
};

}  // namespace tessera
