#pragma once
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernel/data/build_config.hpp"
#include "kernel/data/chunk_file.hpp"

namespace tessera {

/// A line of OUTPUT.removed.jsonl. `twin` is empty where no other document is the reason.
std::string removed_line(std::string_view id,
                         std::string_view stage,
                         std::string_view reason,
                         std::string_view twin = {},
                         double similarity = 0);

/// Sends documents through stages that look at one at a time, into a chunk. For one thread.
class DocumentLine {
 public:
  struct Stages {
    std::size_t begin = 0, end = 0;            ///< of BuildConfig::stages
    const DocumentComparison* next = nullptr;  ///< what compares afterwards; nullptr: nothing does
  };
  DocumentLine(const BuildConfig& config, Stages stages);

  /// A document as it was read.
  void read(std::string_view id, std::string_view text, Chunk& out);
  /// A document of an earlier chunk.
  void go_on(std::string_view id, std::string_view text, std::span<const i32> tokens, Chunk& out);

 private:
  void run(std::string_view id, std::string_view text, std::size_t stage, Chunk& out);
  void encode(std::string_view text);
  TextAmount amount_of(std::string_view text) const;
  void cut(std::string_view id,
           const std::vector<std::string>& sequences,
           StageCounts& counts,
           Chunk& out);
  void finish(std::string_view id, std::string_view text, Chunk& out);

  const BuildConfig& config_;
  Stages stages_;
  std::unique_ptr<TextEncoder> encoder_;
  DocumentTokens tokens_;  // of the text on its way
  std::vector<std::byte> sketch_;
};

}  // namespace tessera
