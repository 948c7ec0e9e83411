#pragma once
#include <string>
#include <vector>

#include "mapped_file.hpp"
#include "tessera/data.hpp"

namespace tessera {

/// The tokens of all files, one after the other.
class Corpus {
 public:
  /// `paths`: files, or folders of *.txt files. Where bytes are ids the files stay mapped and are
  /// read in place; any other tokenizer encodes each file once, and its ids are kept in memory,
  /// four bytes each.
  Corpus(const std::vector<std::string>& paths, const Tokenizer& tokenizer);

  i64 tokens() const { return starts_.back(); }
  /// Tokens [begin, begin + count) to `out`.
  void copy(i64 begin, i64 count, i64* out) const;
  /// Hash of all files' sizes and contents, in order, and of their ids where bytes are none.
  u64 hash() const { return hash_; }

 private:
  std::vector<MappedFile> files_;
  std::vector<i64> starts_ = {0};  // first token of each file, then the end
  std::vector<i32> ids_;           // unless bytes are tokens
  bool bytes_are_ids_;
  u64 hash_ = 0;
};

}  // namespace tessera
