#pragma once
#include <array>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "bpe_files.hpp"
#include "tessera/types.hpp"

namespace tessera {

/// The tokens and merges of a tokenizer, and what bytes they stand for.
class Vocabulary {
 public:
  /// `added` may have further tokens. Throws ConfigError naming the file, the line where there is
  /// one, and what is wrong: ids that are not 0, 1, 2, …, a byte without a token, a merge of tokens
  /// that are not there.
  Vocabulary(const BpeFiles& files, const std::vector<AddedToken>& added);

  /// A hash of all tokens with their ids, and of the merges, whatever order the files list them in.
  u64 hash() const;
  i64 size() const { return static_cast<i64>(bytes_.size()); }
  /// The bytes that a token stands for.
  const std::string& bytes(i32 id) const { return bytes_[static_cast<std::size_t>(id)]; }
  /// Id of a token in the file's spelling; -1 if unknown.
  i32 find(const std::string& written) const;
  i32 of_byte(unsigned char byte) const { return of_byte_[byte]; }

  struct Merge {
    i32 rank = 0;  ///< lower ones are made first
    i32 id = 0;    ///< what it makes
  };
  /// nullptr where these two neighbours stay two tokens.
  const Merge* merge(i32 left, i32 right) const;

 private:
  void take_tokens(const BpeFiles& files, const std::vector<AddedToken>& added);
  void take_merges(const BpeFiles& files);

  std::unordered_map<std::string, i32> ids_;  // by what the file writes
  std::vector<std::string> bytes_;            // by id
  std::array<i32, 256> of_byte_{};
  std::unordered_map<u64, Merge> merges_;  // by both ids
};

}  // namespace tessera
