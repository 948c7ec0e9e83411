#pragma once
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/types.hpp"

namespace tessera {

/// A folder with this file in it is a complete checkpoint; it is written last.
inline constexpr std::string_view kIndexName = "index.json";

/// The state of a dynamic loss scale.
struct StoredLossScale {
  double scale = 1;
  i64 clean_steps = 0;  ///< in a row since the scale moved
  i64 hysteresis = 0;   ///< overflows left until the scale shrinks
};

/// Everything in a checkpoint but its tensors.
struct CheckpointInfo {
  i64 step = 0;
  i64 updates = 0;  ///< updates of the parameters, without skipped steps: the position of Adam's
                    ///< count and the learning rate
  i64 samples = 0;  ///< consumed: the data position
  u64 seed = 0;
  std::string data;                                ///< the dataset's fingerprint
  std::string config;                              ///< the resolved configuration as TOML
  std::optional<StoredLossScale> loss_scale = {};  ///< none: the run had none that moves
  std::string tokenizer = {};                      ///< its fingerprint; empty: not known
  /// The structural keys with their values (kernel/config/structure.hpp).
  std::map<std::string, std::string> structure = {};
  // The state of `[check] on_bad_step`.
  double loss_mean = 0;               ///< of recent good steps
  i64 loss_count = 0;                 ///< how many of them the mean has
  std::vector<i64> passed_over = {};  ///< steps up to this one that were not trained on
};

/// A rectangle of a logical tensor: where it begins in each dimension, and its sizes.
struct Rectangle {
  std::vector<i64> begin, shape;
  i64 elements() const;
  bool empty() const;
  bool overlaps(const Rectangle& other) const;
  /// "[0:16, 32:48]"
  std::string text() const;
};

/// A rectangle as a file holds it, in row-major order. A large one is divided into bands of rows; a
/// band into blocks of columns, where a layout may cut columns. Each block has a checksum of its
/// own, so that a rank reads what it needs and little else.
struct StoredSlice {
  std::string file, key;  ///< key: the tensor's name inside the safetensors file
  Rectangle where;
  std::vector<u64> checksums;  ///< XXH3 of each block, whose elements are taken in row-major order
  i64 block_rows = 0;          ///< entries of a band along the first dimension; 0: one block in all
  int column_dim = 0;          ///< dimension along which a band is divided further; never the first
  i64 block_columns = 0;       ///< entries of a block along `column_dim`; 0: a band is one block

  /// Divides it. An element has `bytes` bytes; a layout may cut the tensor along `column_dim` (0:
  /// along its rows only). A band has at least 64 KiB. There are at most 128 bands, or 32 of up to
  /// eight blocks each, whose rows have at least 512 bytes.
  void divide(i64 bytes, int column_dim);
  /// Rectangles of the tensor, in the order of their bytes.
  std::vector<Rectangle> bands() const;
  /// The blocks of a band, in the order of `column_dim`.
  std::vector<Rectangle> blocks(const Rectangle& band) const;
  /// The blocks of all bands, in the order of the checksums.
  std::vector<Rectangle> blocks() const;
};

struct StoredTensor {
  std::string dtype;  ///< "fp32"
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
  /// Throws Error naming the first tensor whose slices do not cover it exactly once, or a file
  /// that is not listed.
  void check_tiling() const;
  /// Bytes that a listed file must have.
  std::optional<i64> bytes_of(std::string_view file) const;
  i64 total_bytes() const;

  std::string to_json() const;
  /// Throws Error, naming `source`, when the text is not such an index or was changed.
  static CheckpointIndex from_json(const std::string& text, const std::string& source);
};

/// A checkpoint's index, checked in itself. Throws Error naming the file.
CheckpointIndex read_index(const std::filesystem::path& folder);

/// Header of a safetensors file: where each tensor's bytes lie after it.
struct SafetensorsEntry {
  std::string key, dtype;
  std::vector<i64> shape;
  i64 begin = 0, end = 0;
};
std::string safetensors_header(const std::vector<SafetensorsEntry>& entries,
                               const std::map<std::string, std::string>& metadata = {});
/// `metadata`, where given, gets the texts of "__metadata__".
std::vector<SafetensorsEntry> parse_safetensors_header(
    const std::string& text,
    const std::string& source,
    std::map<std::string, std::string>* metadata = nullptr);

}  // namespace tessera

template <>
struct fmt::formatter<tessera::Rectangle> : tessera::TextFormatter<tessera::Rectangle> {};
