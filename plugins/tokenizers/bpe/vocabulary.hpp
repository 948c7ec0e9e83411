#pragma once
#include <array>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "bpe_files.hpp"
#include "merge_table.hpp"
#include "tessera/types.hpp"

namespace tessera {

/// What the ids of a vocabulary are.
enum class VocabularyKind : u8 {
  every_byte,  ///< ids are 0, 1, 2, …, every byte has one, and tokens stand for bytes
  as_written   ///< ids may leave gaps; tokens stay what the file writes
};

/// The tokens and merges of a tokenizer, and what they stand for.
class Vocabulary {
 public:
  /// `added` may have further tokens. Throws ConfigError naming the file, the line where there is
  /// one, and what is wrong: two tokens of one id, a merge of tokens that are not there; and of
  /// `every_byte`, ids that are not 0, 1, 2, …, or a byte without a token.
  Vocabulary(const BpeFiles& files, const std::vector<AddedToken>& added, VocabularyKind kind);

  /// A hash of all tokens with their ids, and of the merges, whatever order the files list them in.
  u64 hash() const;
  /// All ids are smaller.
  i64 size() const { return static_cast<i64>(tokens_.size()); }
  /// What a token stands for; empty where no token has this id.
  const std::string& token(i32 id) const { return tokens_[static_cast<std::size_t>(id)]; }
  /// Id of a token of the model in the file's spelling; -1 if unknown. Added ones are not found.
  i32 find(std::string_view written) const;
  /// Bytes of the longest token of the model, in the file's spelling.
  std::size_t longest() const { return longest_; }
  /// Id of the token for this byte alone; -1 if there is none.
  i32 of_byte(unsigned char byte) const { return of_byte_[byte]; }

  using Merge = MergeTable::Merge;
  /// nullptr where these two neighbours stay two tokens.
  const Merge* merge(i32 left, i32 right) const { return merges_.find(left, right); }

 private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  void take_tokens(const BpeFiles& files, const std::vector<AddedToken>& added);
  void take_merges(const BpeFiles& files);

  VocabularyKind kind_;
  std::unordered_map<std::string, i32, Hash, std::equal_to<>> ids_;  // by what the file writes
  std::vector<std::string> tokens_;                                  // by id
  std::size_t longest_ = 0;
  std::array<i32, 256> of_byte_{};
  MergeTable merges_;
};

}  // namespace tessera
