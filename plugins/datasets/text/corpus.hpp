#pragma once
#include <string>
#include <vector>

#include "split.hpp"
#include "tessera/data.hpp"

namespace tessera {

/// The tokens of all files, those of the training documents as one sequence and those of the
/// validation documents as another, each in the order of the text.
class Corpus {
 public:
  /// `paths`: files, or folders of *.txt files. Where bytes are ids the files are read in place;
  /// any other tokenizer encodes each piece of the split once, and its ids are kept in memory, four
  /// bytes each. `share` and `key` are those of split_documents().
  Corpus(const std::vector<std::string>& paths,
         const Tokenizer& tokenizer,
         SpecialTexts special,
         double share,
         u64 key);

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
    std::vector<std::string_view> texts;  // where bytes are tokens, else ids
    std::vector<i64> starts = {0};        // first token of each text, then the end
    std::vector<i32> ids;
  };
  const Sequence& sequence(SampleSet set) const {
    return set == SampleSet::train ? training_ : validation_;
  }
  void add(const Piece& piece, const Tokenizer& tokenizer, SpecialTexts special);

  std::vector<DataFile> files_;
  Split split_;
  Sequence training_, validation_;
  bool bytes_are_ids_;
  u64 hash_ = 0;
};

}  // namespace tessera
