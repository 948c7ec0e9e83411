#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "tessera/base/api.hpp"
#include "tessera/types.hpp"

namespace tessera {

/// How a token file stores its ids. The numbers are those in the file.
enum class TokenType : u8 { u8 = 1, i8, i16, i32, i64, f64, f32, u16 };

/// Bytes of one id.
TESSERA_API i64 token_type_size(TokenType type);
/// "u16"
TESSERA_API std::string_view token_type_name(TokenType type);
/// The type that Megatron-LM chooses for a vocabulary: u16 below 65,500 entries, else i32.
TESSERA_API TokenType token_type_for(i64 vocabulary);

/// The index of a token file, `PREFIX.idx` as Megatron-LM's IndexedDataset writes it
/// (core/datasets/indexed_dataset.py): sequences of tokens that lie one after the other in
/// `PREFIX.bin`, and which of them make up a document. Without `--split-sentences` a document is
/// one sequence.
///
/// Little-endian, packed: 9 bytes "MMIDIDX\0\0"; u64 version 1; u8 type; u64 sequences; u64
/// documents + 1; then i32 lengths in tokens, i64 first bytes in PREFIX.bin, i64 first sequence of
/// each document and the number of sequences; i8 modes of the sequences where the file has them.
///
/// It reads the bytes in place, so they outlive it. Immutable, hence thread-safe. Arguments out of
/// range are the caller's mistake and not checked.
class TESSERA_API TokenIndex {
 public:
  /// Reads all of it once. Throws Error, which begins with `name` and says at which byte something
  /// is wrong: every length, place and document is right after that.
  TokenIndex(std::string_view bytes, const std::string& name);

  TokenType type() const { return type_; }
  i64 sequences() const { return sequences_; }
  i64 documents() const { return documents_; }
  i64 tokens() const { return tokens_; }
  /// That PREFIX.bin has.
  i64 data_bytes() const { return tokens_ << shift_; }

  /// Tokens of a sequence; 0 is possible.
  i64 length(i64 sequence) const;
  /// The first token of a sequence; of sequences(): tokens().
  i64 begin(i64 sequence) const;
  /// What Megatron-LM's multimodal datasets say of a sequence; nothing where the file has no modes.
  std::optional<i32> mode(i64 sequence) const;
  bool has_modes() const { return modes_ != nullptr; }

  /// The first sequence of a document; of documents(): sequences(). Documents may be empty.
  i64 first_sequence(i64 document) const;
  /// The first token of a document; of documents(): tokens().
  i64 document_begin(i64 document) const { return begin(first_sequence(document)); }
  /// Which sequence or document a token is of: 0 <= token < tokens().
  i64 sequence_at(i64 token) const;
  i64 document_at(i64 token) const;

 private:
  void check_documents(const char* begin, const std::string& name) const;

  TokenType type_ = TokenType::u8;
  int shift_ = 0;  // an id has 2^shift_ bytes
  i64 sequences_ = 0, documents_ = 0, tokens_ = 0;
  const char *lengths_ = nullptr, *places_ = nullptr, *firsts_ = nullptr, *modes_ = nullptr;
};

}  // namespace tessera
