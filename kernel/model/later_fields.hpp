#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "kernel/model/model_parts.hpp"
#include "tessera/data.hpp"

namespace tessera {

/// What the layers of a rank read of the data some positions later (later_input.hpp).
class LaterFields {
 public:
  struct Field {
    FieldInfo info;          ///< name of the slot, dtype of the field
    std::size_t source = 0;  ///< the field, among those of the data
    i64 positions = 0;
  };

  /// Those in slots of `parts`, and the masks of its loss terms. Throws ConfigError where the data
  /// has no such field.
  LaterFields(const ModelParts& parts, std::span<const FieldInfo> fields);

  const std::vector<Field>& all() const { return all_; }
  /// Makes them of a whole sample of `length` positions: `values` has what the data's fields hold
  /// there, in order, then room for each of these.
  void fill(std::span<std::byte* const> values, i64 length) const;

 private:
  std::size_t fields_;  // of the data
  int documents_ = -1;  // that which says where each row's document begins
  std::vector<Field> all_;
};

}  // namespace tessera
