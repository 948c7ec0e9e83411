#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "kernel/checkpoint/checkpoints.hpp"

namespace tessera {

/// A rectangle of a logical tensor: where it begins in each dimension, and its sizes.
struct Rectangle {
  std::vector<i64> begin, shape;
  i64 elements() const;
  bool overlaps(const Rectangle& other) const;
  /// "[0:16, 32:48]"
  std::string text() const;
};

/// A rectangle as a file holds it.
struct StoredSlice {
  std::string file, key;  ///< key: the tensor's name inside the safetensors file
  Rectangle where;
  u64 checksum = 0;  ///< XXH3 of its bytes
};

struct StoredTensor {
  std::string dtype;  ///< "f32"
  std::vector<i64> shape;
  std::vector<StoredSlice> slices;
};

struct StoredFile {
  std::string name;
  i64 bytes = 0;
};

/// Everything that index.json says, and what each rank reports of the file it wrote.
struct CheckpointIndex {
  CheckpointInfo info;
  std::vector<StoredFile> files;
  std::map<std::string, StoredTensor> tensors;

  /// Adds another rank's files and slices. Throws Error when shapes or dtypes disagree.
  void merge(const CheckpointIndex& part);
  /// Throws Error naming the first tensor whose slices do not cover it exactly once.
  void check_tiling() const;

  std::string to_json() const;
  /// Throws Error, naming `source`, when the text is not such an index.
  static CheckpointIndex from_json(const std::string& text, const std::string& source);
};

/// Throws Error naming the file when it cannot be read.
std::string read_text_file(const std::filesystem::path& file);
CheckpointIndex read_index(const std::filesystem::path& folder);

/// Header of a safetensors file: where each tensor's bytes lie behind it.
struct SafetensorsEntry {
  std::string key, dtype;
  std::vector<i64> shape;
  i64 begin = 0, end = 0;
};
std::string safetensors_header(const std::vector<SafetensorsEntry>& entries);
std::vector<SafetensorsEntry> parse_safetensors_header(const std::string& text,
                                                       const std::string& source);

}  // namespace tessera
