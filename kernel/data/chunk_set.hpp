#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "kernel/data/chunk_file.hpp"
#include "tessera/document_stage.hpp"

namespace tessera {

/// All documents of a row of chunk files by number. Sketches are kept in memory, everything else is
/// read when it is asked for. Thread-safe once it is filled.
class ChunkSet final : public DocumentSet {
 public:
  /// "<folder>/<name>-<number>"
  ChunkSet(std::filesystem::path folder, std::string name)
      : folder_(std::move(folder)), name_(std::move(name)) {}

  std::filesystem::path file(i64 chunk) const;
  /// The next chunk, whose file is there.
  void append(i64 documents);
  void append_sketches(std::span<const std::byte> sketches, i64 bytes_each);
  void drop_sketches() { sketches_ = {}; }

  i64 chunks() const { return static_cast<i64>(first_.size()) - 1; }
  i64 first_document(i64 chunk) const { return first_[static_cast<std::size_t>(chunk)]; }

  i64 size() const override { return first_.back(); }
  std::span<const std::byte> sketch(i64 number) const override;
  std::string text(i64 number) const override;
  std::string id(i64 number) const;
  void tokens(i64 number, DocumentTokens& out) const;

 private:
  struct Place {
    std::filesystem::path file;
    i64 document;
  };
  Place place_of(i64 number) const;

  std::filesystem::path folder_;
  std::string name_;
  std::vector<i64> first_{0};  // documents before each chunk, and of all
  std::vector<std::byte> sketches_;
  i64 sketch_bytes_ = 0;
};

}  // namespace tessera
