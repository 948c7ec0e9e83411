#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "split.hpp"
#include "tessera/data.hpp"
#include "tessera/io/kept_bytes.hpp"

namespace tessera {

/// The tokens of all files, those of the training documents as one sequence and those of the
/// validation documents as another, each in the order of the text.
class Corpus {
 public:
  struct Choices {
    std::vector<std::string> paths;  ///< files, patterns of them, or folders of *.txt files
    SpecialTexts special = SpecialTexts::as_text;
    bool eod = false;     ///< the tokenizer's end of a document follows each file
    double share = 0;     ///< of split_documents()
    u64 key = 0;          ///< the same
    std::string keep_in;  ///< DatasetArguments::keep_in
  };
  /// Where bytes are ids the files are read in place; any other tokenizer encodes each piece of the
  /// split once, and its ids, four bytes each, are kept in a file that all ranks of the host map.
  Corpus(const Choices& choices, const Tokenizer& tokenizer);

  i64 tokens(SampleSet set) const { return sequence(set).starts.back(); }
  i64 tokens() const { return tokens(SampleSet::train) + tokens(SampleSet::validation); }
  /// Tokens [begin, begin + count) of a set to `out`.
  void copy(SampleSet set, i64 begin, i64 count, i64* out) const;

  i64 documents(SampleSet set) const;
  const std::string& unit() const { return split_.unit; }
  const std::vector<DataFile>& files() const { return files_; }
  /// Hash of all files' sizes and contents, in order, and of their ids where bytes are none.
  u64 hash() const { return hash_; }
  /// Hash of which bytes validate.
  u64 split_hash() const;

 private:
  struct Sequence {
    std::vector<std::string_view> texts;    // where bytes are tokens
    std::vector<std::span<const i32>> ids;  // elsewhere
    std::vector<i64> starts = {0};          // first token of each of them, then the end
  };
  const Sequence& sequence(SampleSet set) const {
    return set == SampleSet::train ? training_ : validation_;
  }
  /// The pieces of all files in order; a file without any has an empty one.
  std::vector<Piece> pieces() const;
  void encode(const Choices& choices, const Tokenizer& tokenizer);
  void add(const Piece& piece, std::span<const i32> ids);

  std::vector<DataFile> files_;
  Split split_;
  std::unique_ptr<KeptBytes> kept_;  // ids of all pieces, one after the other
  Sequence training_, validation_;
  bool bytes_are_ids_;
  u64 hash_ = 0;
};

}  // namespace tessera
