#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "kernel/checkpoint/index.hpp"
#include "tessera/converter.hpp"

namespace tessera {

/// A tensor of another format and the rectangle of our parameter that holds its values.
struct Tile {
  ConvertedTensor tensor;
  Rectangle where;
  std::vector<i64> of;  ///< the parameter's sizes

  /// The sizes that it has in the other format.
  std::vector<i64> their_shape() const;
  /// "rows 0 to 127 of "layers.0.attention.qkv.weight"", for an error about a tensor of these
  /// sizes there; with the columns too where those are not all, or not as many.
  std::string text(const std::vector<i64>& theirs) const;
};

/// Lays out the tensors of one parameter, all with the same `ours`. Throws ConfigError where they
/// leave a part of it out, overlap, or lie outside.
std::vector<Tile> lay_out(const std::vector<ConvertedTensor>& tensors,
                          const std::vector<i64>& shape);

/// Values of the tile out of the parameter's, as the other format has them. An element has `bytes`
/// bytes.
std::vector<std::byte> cut(const Tile& tile, std::span<const std::byte> parameter, i64 bytes);
/// The inverse: puts them into the parameter's values.
void put(const Tile& tile,
         std::span<const std::byte> theirs,
         std::span<std::byte> parameter,
         i64 bytes);

}  // namespace tessera
