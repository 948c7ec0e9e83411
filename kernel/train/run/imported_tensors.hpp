#pragma once
#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "kernel/checkpoint/foreign_model.hpp"
#include "kernel/train/run/tiles.hpp"
#include "tessera/converter.hpp"

namespace tessera {

/// The model's settings, with two tensors instead of one where the files hold other values under
/// its two names. Warns of each; throws ConfigError where the converter cannot say so.
Settings apart_where_they_differ(const ForeignModel& model, const Converter& converter);

/// Tensors of another format under our names, and what does not fit. `model` outlives it.
class ImportedTensors {
 public:
  ImportedTensors(const ForeignModel& model, const Converter& converter, const Settings& theirs);
  /// Names here of parameters whose optional tensors are missing, all of them, and of those whose
  /// optional tensors are there.
  const std::vector<std::string>& lacking() const { return lacking_; }
  const std::vector<std::string>& kept() const { return kept_; }
  /// Asks for a parameter that is not lacking(): it must be there, in this shape.
  void expect(const std::string& ours, const std::vector<i64>& shape);
  /// Throws ConfigError naming all that is missing, unknown or of another shape.
  void require_fit(const std::filesystem::path& folder) const;
  /// The dtype of all tensors of these parameters, or one that holds the values of all.
  DType dtype_of(const std::vector<std::string>& ours) const;
  /// The values of one that was asked for, as `dtype`.
  std::vector<std::byte> values(const std::string& ours, DType dtype) const;

 private:
  const ForeignModel& model_;
  std::map<std::string, std::vector<ConvertedTensor>> tensors_;  // by our name
  std::map<std::string, std::vector<Tile>> tiles_;               // of those that were expected
  std::vector<std::string> lacking_, kept_, problems_;
};

}  // namespace tessera
