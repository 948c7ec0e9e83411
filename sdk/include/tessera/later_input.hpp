#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "tessera/types.hpp"

namespace tessera {

/// An input of the model that the data does not have as it is: what its field holds `positions`
/// later in the same sample and, where the data has a field "first" (i32: the position in the
/// sample at which a row's document begins), in the same document. 0 where there is nothing so
/// late: a mask is 0 there, too. It is cut from whole samples, so no rank has to ask another one
/// for it.
///
/// A layer reads it in the slot of its name:
///
///     targets_ = build.slot(later_input("targets", 2));  // "targets+2"
///
/// Rows, dtype and layout are those of the field.
struct LaterInput {
  std::string field;
  i64 positions = 0;
};

/// The name of such an input; of the field itself for 0 positions.
TESSERA_API std::string later_input(std::string_view field, i64 positions);
/// What a slot's name says; nothing where it is no such input.
TESSERA_API std::optional<LaterInput> parse_later_input(std::string_view name);

}  // namespace tessera
