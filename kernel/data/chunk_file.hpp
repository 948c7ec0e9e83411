#pragma once
#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernel/data/stage_counts.hpp"
#include "tessera/types.hpp"

namespace tessera {

/// The tokens of a document. Where a stage cut it into several sequences, `lengths` are the tokens
/// of each, which add up to all; otherwise it is empty.
struct DocumentTokens {
  std::vector<i32> ids;
  std::vector<u32> lengths;
};

/// What became of a block of documents. Ids of tokens have two bytes where all fit.
class Chunk {
 public:
  explicit Chunk(bool wide_tokens = false) : wide_(wide_tokens) {}

  /// `text` is empty where no later stage reads it; `sketch` where none compares.
  void add(std::string_view id,
           std::string_view text,
           const DocumentTokens& tokens,
           std::span<const std::byte> sketch);
  i64 documents() const { return static_cast<i64>(rows_.size()); }
  std::string_view id(i64 document) const;
  std::string_view text(i64 document) const;
  void tokens(i64 document, DocumentTokens& out) const;
  std::span<const std::byte> sketches() const { return sketches_; }

  std::string removed;              ///< lines for OUTPUT.removed.jsonl
  std::vector<StageCounts> counts;  ///< of all stages of the build
  TextAmount amount;                ///< of its documents

  /// Writes it as a file that says what it was made from. The file is whole, or not there.
  /// Returns a hash of what it holds.
  u64 save(const std::filesystem::path& file, u64 source) const;
  struct Loaded;
  /// Nothing where there is no such file, it was made from something else, or it is damaged.
  static std::optional<Loaded> load(const std::filesystem::path& file, u64 source);
  /// A file that load() or save() left whole. Throws Error where it no longer is.
  static Loaded read(const std::filesystem::path& file);
  /// Parts of a file that load() has found whole.
  static std::string read_text(const std::filesystem::path& file, i64 document);
  static std::string read_id(const std::filesystem::path& file, i64 document);
  static void read_tokens(const std::filesystem::path& file, i64 document, DocumentTokens& tokens);

 private:
  struct Row {
    u64 id_end = 0, text_end = 0, token_end = 0, length_end = 0;
  };
  struct Header;
  class Parts;
  static std::optional<Loaded> load_if(const std::filesystem::path& file,
                                       const std::optional<u64>& source);
  Row row_before(i64 document) const {
    return document == 0 ? Row() : rows_[static_cast<std::size_t>(document) - 1];
  }
  const Row& row(i64 document) const { return rows_[static_cast<std::size_t>(document)]; }

  bool wide_;
  std::vector<Row> rows_;
  std::string ids_, texts_;
  std::vector<std::byte> tokens_, sketches_;
  std::vector<u32> lengths_;
};

struct Chunk::Loaded {
  Chunk chunk;
  u64 content = 0;  ///< what save() returned
};

}  // namespace tessera
