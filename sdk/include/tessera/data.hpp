#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/identified.hpp"
#include "tessera/io/data_file.hpp"
#include "tessera/schema.hpp"
#include "tessera/types.hpp"

namespace tessera {

struct TokenizerArguments {};

/// What becomes of the texts of special tokens, as "<|endoftext|>", that stand in a text.
enum class SpecialTexts : u8 {
  as_text,  ///< they are characters like any others: who wrote a text does not choose its tokens
  parsed    ///< each is its token
};

/// Tokens by their role, as the tokenizer's files name them.
struct SpecialIds {
  std::optional<i32> bos = {};  ///< a text begins with it
  std::vector<i32> eos = {};    ///< any of them ends a text
  std::optional<i32> eod = {};  ///< ends each document of a token file
  std::optional<i32> pad = {};  ///< fills up what is shorter than a sample
  std::optional<i32> unk = {};  ///< stands for what has no token
  // Of BERT:
  std::optional<i32> cls = {};   ///< begins a sample
  std::optional<i32> sep = {};   ///< ends each of its parts
  std::optional<i32> mask = {};  ///< stands for a token that is to be predicted
};

/// Encodes the texts of one thread, and keeps what it found out about the words of one for the
/// next. Made by Tokenizer::encoder, which outlives it.
class TESSERA_API TextEncoder {
 public:
  virtual ~TextEncoder();
  /// Appends the ids of `text` to `ids`: those that Tokenizer::encode gives.
  virtual void append(std::string_view text, std::vector<i32>& ids) = 0;
};

/// Text to token ids and back. Plugin kind "tokenizer". Thread-safe.
class TESSERA_API Tokenizer : public Identified {
 public:
  static constexpr std::string_view kKind = "tokenizer";
  using Arguments = TokenizerArguments;

  ~Tokenizer() override;
  i64 vocabulary() const;
  /// True when encode() maps every byte to its value, so that a dataset may read the ids of a file
  /// from its bytes, without encoding it.
  bool bytes_are_ids() const;
  /// Identifies all that decides ids: vocabulary, merges, special tokens, how text is split. Equal
  /// for two tokenizers that encode every text alike, wherever their files are; a few words and a
  /// hash64: "gpt2: 50257 tokens, 1a2b3c4d5e6f7081". Checkpoints keep it, and a model is not
  /// trained further with another one.
  std::string fingerprint() const;
  /// Nothing is put before or after the text's own tokens. `parsed` makes no difference where
  /// has_special_texts() is false.
  std::vector<i32> encode(std::string_view text,
                          SpecialTexts special = SpecialTexts::as_text) const;
  /// For many texts: faster than encode() where words come again.
  std::unique_ptr<TextEncoder> encoder(SpecialTexts special = SpecialTexts::as_text) const;
  std::string decode(const std::vector<i32>& ids) const;
  /// Are there texts that encode() parses to one token, if it is told to?
  bool has_special_texts() const;
  /// Throws Error for ids that are outside of the vocabulary.
  SpecialIds special_ids() const;
  /// Is this token a later piece of a word, as WordPiece's "##ing" is? False for each token where a
  /// tokenizer does not tell. Throws Error where the id is outside of the vocabulary.
  bool continues_word(i32 id) const;

 private:
  virtual i64 do_vocabulary() const = 0;
  virtual bool do_bytes_are_ids() const { return false; }
  virtual std::string do_fingerprint() const = 0;
  /// Texts of special tokens are text.
  virtual std::vector<i32> do_encode(std::string_view text) const = 0;
  /// Texts of special tokens are parsed.
  virtual std::vector<i32> do_encode_parsed(std::string_view text) const { return do_encode(text); }
  /// nullptr: texts are encoded one by one, by the functions above.
  virtual std::unique_ptr<TextEncoder> do_encoder(SpecialTexts) const { return nullptr; }
  virtual std::string do_decode(const std::vector<i32>& ids) const = 0;
  virtual bool do_has_special_texts() const { return false; }
  virtual SpecialIds do_special_ids() const { return {}; }
  virtual bool do_continues_word(i32) const { return false; }
};

/// One input of the model for each sample: bundle slot of this name.
///
/// Some names have a meaning. "positions" (i64): of each token, where it is not its place in the
/// sample. "first", "last" (i32): the first and the last place of the sample that the token may
/// see; "first" is also where its document begins.
struct FieldInfo {
  /// Values of a sample: one for each of its tokens, cut with them by context parallelism.
  static constexpr i64 kTokens = 0;

  std::string name;          ///< "tokens", "targets", "loss_mask"
  DType dtype = DType::i64;  ///< i64, i32 or u8
  /// Not empty: u8 mask whose sum over the global batch is the weight of this loss term.
  std::string loss = {};
  /// kTokens, or how many values a sample has: all of them on each rank that has a part of the
  /// sample, in a slot of [samples · length]. A mask of such is counted once.
  i64 length = kTokens;
};

enum class SampleSet : u8 { train, validation, test };

/// Destination of one sample: for each field, `length` elements of its dtype (kTokens:
/// sequence_length).
struct SampleBuffers {
  std::vector<void*> fields;
};

/// What a set is made of, for people.
struct SetContent {
  i64 documents = 0;               ///< 0: nobody counts them
  std::string unit = "documents";  ///< what they are: "files", "paragraphs"
  i64 tokens = 0;                  ///< 0: sequence_length of each sample
};

struct DatasetArguments {
  i64 sequence_length = 1;
  u64 seed = 0;
  std::shared_ptr<const Tokenizer> tokenizer;  ///< the run's: [tokenizer]
  i64 training_samples = 0;  ///< that the run reads in all its steps: for orders that depend on it
  i64 vocabulary = 0;        ///< rows of the model's table of tokens; 0: not known
  /// Folder for files that all ranks of a host share and later runs find again (indices, tokens).
  /// Empty: nothing may be written.
  std::string keep_in;
};

/// Samples by ordinal. Plugin kind "dataset". A pure function of (configuration, seed, ordinal):
/// every rank reads the same, nothing depends on the layout. Thread-safe.
class TESSERA_API Dataset : public Identified {
 public:
  static constexpr std::string_view kKind = "dataset";
  using Arguments = DatasetArguments;

  ~Dataset() override;
  std::vector<FieldInfo> fields() const;
  /// Samples in one epoch of a set; ordinals go on beyond it into further epochs.
  i64 size(SampleSet set) const;
  void read(SampleSet set, i64 ordinal, const SampleBuffers& out) const;
  /// Identifies the data: ranks compare it, checkpoints keep it.
  std::string fingerprint() const;
  /// For people: where a sample comes from, as "documents 7 to 9 of corpus"; empty: not known.
  std::string origin(SampleSet set, i64 ordinal) const;
  /// What the run's first lines say of a set.
  SetContent content(SampleSet set) const;
  /// Files whose change would change samples; alive as long as this. The run looks at them before
  /// it saves, and when read() throws; it ends with the name of one that has changed.
  std::vector<const DataFile*> files() const;

 private:
  virtual std::vector<FieldInfo> do_fields() const = 0;
  virtual i64 do_size(SampleSet set) const = 0;
  virtual void do_read(SampleSet set, i64 ordinal, const SampleBuffers& out) const = 0;
  virtual std::string do_fingerprint() const = 0;
  virtual std::string do_origin(SampleSet, i64) const { return {}; }
  virtual SetContent do_content(SampleSet set) const;
  virtual std::vector<const DataFile*> do_files() const;
};

}  // namespace tessera
