#pragma once
#include <cstddef>
#include <vector>

#include "kernel/model/later_fields.hpp"
#include "kernel/model/model_parts.hpp"
#include "tessera/data.hpp"

namespace tessera {

/// The inputs that the data gives the layers of one rank: those fields of the dataset that they
/// read (in a slot of their name, as the mask of a loss term, or some positions later), what they
/// read later, then what every sample has of its own: "row_ids", and "positions" where the dataset
/// has no such field.
class DataInputs {
 public:
  /// Throws ConfigError for fields that no layer could read as they are. Where `all`, fields that
  /// no layer of this rank reads are inputs, too.
  DataInputs(const ModelParts& parts, const std::vector<FieldInfo>& fields, bool all = false);

  /// A field of the dataset or of LaterFields; where `input` is -1, the dataset gives it and nobody
  /// here reads it.
  struct Source {
    FieldInfo info;
    int input;
  };
  /// The dataset's fields in their order, then those of later().
  const std::vector<Source>& sources() const { return sources_; }
  const std::vector<FieldInfo>& inputs() const { return inputs_; }
  const LaterFields& later() const { return later_; }
  std::size_t fields() const { return fields_; }
  int row_ids() const { return row_ids_; }      ///< which input they are
  int positions() const { return positions_; }  ///< -1: a field
  /// Does the dataset have to read samples for this rank?
  bool any_field() const;

 private:
  std::size_t fields_;  // of the dataset
  LaterFields later_;
  std::vector<Source> sources_;
  std::vector<FieldInfo> inputs_;
  int row_ids_ = -1, positions_ = -1;
};

/// Values of an input in one microbatch on this rank.
i64 values_of(const FieldInfo& info, const BatchShape& shape);

}  // namespace tessera
