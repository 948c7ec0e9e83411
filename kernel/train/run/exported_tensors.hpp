#pragma once
#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "kernel/checkpoint/stored_reader.hpp"
#include "kernel/train/run/converters.hpp"
#include "kernel/train/run/rounded.hpp"
#include "kernel/train/run/tiles.hpp"

namespace tessera {

using TensorShapes = std::map<std::string, std::vector<i64>>;  // by our names

/// A checkpoint's parameters as tensors of another format. `index` outlives it.
class ExportedTensors {
 public:
  /// `theirs` are the settings of the model there. Throws ConfigError where the converter's tensors
  /// and the parameters of `from` are not the same values.
  ExportedTensors(const std::filesystem::path& from,
                  const CheckpointIndex& index,
                  const NamedConverter& by,
                  const Settings& theirs);
  /// The dtype of all but `buffers`, which are some of our names.
  DType dtype_without(const std::set<std::string>& buffers) const;
  /// Hands over all but `buffers` as `dtype`.
  void round(DType dtype, const std::set<std::string>& buffers);
  /// What that costs; empty: nothing. Known when all entries are written.
  std::string cost() const { return rounded_ ? rounded_->text() : std::string(); }
  /// Parameters that the checkpoint lacks, as the files may lack their tensors.
  const std::vector<std::string>& lacking() const { return lacking_; }
  /// Parameters, by our names.
  const TensorShapes& shapes() const { return shapes_; }
  /// Their tensors. Those of one parameter follow each other.
  const std::vector<SafetensorsEntry>& entries() const { return entries_; }
  /// Hands the values of entry i to `sink`.
  void write(std::size_t i, const ByteSink& sink);

 private:
  StoredReader reader_;
  std::vector<std::string> lacking_;
  TensorShapes shapes_;
  std::vector<SafetensorsEntry> entries_;
  std::vector<Tile> tiles_;                  // of each entry
  std::vector<const StoredTensor*> stored_;  // which parameter each is of
  std::optional<Rounded> rounded_;
  const StoredTensor* read_ = nullptr;  // whose values are in `values_`
  std::vector<std::byte> values_;
};

}  // namespace tessera
