#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/api.hpp"
#include "tessera/io/data_file.hpp"
#include "tessera/io/json.hpp"
#include "tessera/io/token_index.hpp"
#include "tessera/types.hpp"

namespace tessera {

/// Token files are three files of one prefix: `PREFIX.idx` (TokenIndex) and `PREFIX.bin` (the ids,
/// nothing else) as Megatron-LM has them, and `PREFIX.report.json`, a JSON object by whoever made
/// them. Of the report a reader looks at two keys: "tokenizer", the Tokenizer::fingerprint() of
/// what made the ids ("": not known), and "index", a hash of PREFIX.idx that ties the report to it.
/// Megatron-LM's own files have no report.
///
///     TokenFileWriter writer("corpus", token_type_for(tokenizer.vocabulary()));
///     for (…) writer.add(ids), writer.end_document();
///     writer.finish(tokenizer.fingerprint());
///     const TokenFile file("corpus");
///     file.copy(file.index().document_begin(7), 10, ids);

/// Reads one, mapped into memory: ranks of a host share its pages. Thread-safe.
class TESSERA_API TokenFile {
 public:
  /// In which order the ids will be read: the system reads ahead of those that are read in turn.
  enum class Access : u8 { random, in_turn };

  /// `key` is the one of the configuration that names the file. Throws ConfigError, which begins
  /// with it, where a file cannot be read, and Error where one is not what it should be: before
  /// any token is read.
  explicit TokenFile(const std::string& prefix,
                     std::string_view key = "data.path",
                     Access access = Access::random);
  TokenFile(TokenFile&&) noexcept = default;

  const std::string& prefix() const { return prefix_; }
  const TokenIndex& index() const { return index_; }
  /// Ids [begin, begin + count) of all tokens to `out`. Throws Error for an id of a floating type
  /// that is no whole number.
  void copy(i64 begin, i64 count, i64* out) const;
  /// The same ids as they lie in the file.
  std::string_view bytes(i64 begin, i64 count) const;
  /// Tokenizer::fingerprint() of what made the ids; empty: not known.
  const std::string& tokenizer() const { return tokenizer_; }
  /// Identifies the content: the whole index, the sizes of both files, and 1,024 blocks of 4 KiB of
  /// PREFIX.bin, spread from its first byte to its last.
  u64 hash() const { return hash_; }
  /// For Dataset::files.
  std::vector<const DataFile*> files() const { return {&index_file_, &data_file_}; }

 private:
  std::string prefix_;
  DataFile index_file_, data_file_;
  TokenIndex index_;
  std::string tokenizer_;
  u64 hash_ = 0;
};

/// Writes one. What it writes has names of its own, `PREFIX.bin.partial` and the like, until
/// finish() gives them theirs: PREFIX.idx last, and an older one is removed first, so a process
/// that is killed leaves no index of other data. It keeps 12 bytes of memory for each document of
/// one sequence. For one thread; one writer of a prefix at a time.
class TESSERA_API TokenFileWriter {
 public:
  TokenFileWriter(std::string prefix, TokenType type);
  TokenFileWriter(TokenFileWriter&&) noexcept;
  /// Without finish() nothing is left.
  ~TokenFileWriter();

  /// One sequence. Throws Error for an id that the type cannot hold, and where some sequences have
  /// a mode (TokenIndex::mode) and others do not.
  void add(std::span<const i32> ids, std::optional<i32> mode = {});
  /// The sequences since the last call are a document; without any, an empty one.
  void end_document();
  /// Documents [first, end) of another file, whose type is the same, as they are.
  void add_documents(const TokenFile& from, i64 first, i64 end);

  i64 documents() const;
  i64 tokens() const;
  /// Writes index and report, and waits until all is on the disk. `about` is the report;
  /// "tokenizer" and "index" are added to it. Throws Error where sequences wait for their
  /// end_document().
  void finish(std::string_view tokenizer, Json about = Json());

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera
