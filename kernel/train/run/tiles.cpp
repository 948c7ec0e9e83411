#include "kernel/train/run/tiles.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "kernel/checkpoint/slices.hpp"
#include "kernel/train/run/converters.hpp"
#include "tessera/error.hpp"

namespace tessera {

namespace {

// "rows 0 to 7 and columns 8 to 15 of entry 2 of "experts.up"".
std::string part_text(const std::string& name, const Rectangle& where, bool entry, bool columns) {
  std::string text;
  const auto add = [&](const char* what, std::size_t d) {
    if (d >= where.shape.size()) return;
    text += fmt::format("{} {} to {} ", what, where.begin[d], where.begin[d] + where.shape[d] - 1);
  };
  const std::size_t row = entry ? 1 : 0;
  add("rows", row);
  if (columns) add("and columns", row + 1);
  if (!text.empty()) text += "of ";
  if (entry) text += fmt::format("entry {} of ", where.begin[0]);
  return fmt::format("{}\"{}\"", text, name);
}

// Where the tensor begins along each dimension of the parameter.
std::vector<i64> begin_of(const ConvertedTensor& tensor, const std::vector<i64>& shape) {
  std::vector<i64> begin;
  if (tensor.at.entry) begin.push_back(*tensor.at.entry);
  begin.push_back(tensor.at.row);
  begin.push_back(tensor.at.column);
  if (begin.size() > shape.size()) {  // a vector has no columns, a number no rows
    const auto beyond = std::ranges::any_of(begin.begin() + static_cast<i64>(shape.size()),
                                            begin.end(),
                                            [](i64 at) { return at != 0; });
    if (beyond || (tensor.at.entry && shape.empty())) {
      fail_config("\"{}\" has a place in \"{}\" that a [{}] does not have",
                  tensor.theirs,
                  tensor.ours,
                  fmt::join(shape, ", "));
    }
  }
  begin.resize(shape.size(), 0);
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (begin[d] >= 0 && (begin[d] < shape[d] || begin[d] == 0)) continue;
    fail_config("\"{}\" begins at [{}] in \"{}\", which is [{}]",
                tensor.theirs,
                fmt::join(begin, ", "),
                tensor.ours,
                fmt::join(shape, ", "));
  }
  return begin;
}

// The lines of a grid: along each dimension, where cells begin, and the end of the last one.
class Grid {
 public:
  explicit Grid(const std::vector<i64>& shape) : lines_(shape.size()) {
    for (std::size_t d = 0; d < shape.size(); ++d) lines_[d] = {0, shape[d]};
  }
  void add(const std::vector<i64>& begin) {
    for (std::size_t d = 0; d < begin.size(); ++d) lines_[d].insert(begin[d]);
  }
  Rectangle cell(const std::vector<i64>& begin) const {
    Rectangle cell{begin, {}};
    for (std::size_t d = 0; d < begin.size(); ++d) {
      const auto next = lines_[d].upper_bound(begin[d]);
      cell.shape.push_back(next == lines_[d].end() ? 0 : *next - begin[d]);
    }
    return cell;
  }
  // Moves on to the next cell; false after the last one.
  bool advance(std::vector<i64>& begin) const {
    for (std::size_t d = begin.size(); d-- > 0;) {
      const auto next = lines_[d].upper_bound(begin[d]);
      if (next != lines_[d].end() && std::next(next) != lines_[d].end()) {
        begin[d] = *next;
        return true;
      }
      begin[d] = 0;
    }
    return false;
  }

 private:
  std::vector<std::set<i64>> lines_;
};

}  // namespace

std::vector<i64> Tile::their_shape() const {
  std::vector<i64> shape = where.shape;
  if (tensor.at.entry) shape.erase(shape.begin());
  if (tensor.transposed) std::ranges::reverse(shape);
  return shape;
}

std::string Tile::text(const std::vector<i64>& theirs) const {
  const std::size_t column = tensor.at.entry ? 2 : 1;
  const std::vector<i64> wanted = their_shape();
  const std::size_t there = tensor.transposed ? 0 : 1;
  const bool with_columns =
      column < of.size() && (where.shape[column] != of[column] || theirs.size() != wanted.size() ||
                             theirs[there] != wanted[there]);
  return part_text(tensor.ours, where, tensor.at.entry.has_value(), with_columns);
}

std::vector<Tile> lay_out(const std::vector<ConvertedTensor>& tensors,
                          const std::vector<i64>& shape) {
  Grid grid(shape);
  std::map<std::vector<i64>, const ConvertedTensor*> by_begin;
  for (const ConvertedTensor& tensor : tensors) {
    const std::vector<i64> begin = begin_of(tensor, shape);
    const auto [other, fresh] = by_begin.try_emplace(begin, &tensor);
    if (!fresh) {
      fail_config("\"{}\" and \"{}\" have the same place in \"{}\"",
                  other->second->theirs,
                  tensor.theirs,
                  tensor.ours);
    }
    grid.add(begin);
  }
  const bool entries = tensors.at(0).at.entry.has_value();
  const auto fail_gap = [&](const Rectangle& gap) {
    fail_config("no tensor holds {}", part_text(tensors[0].ours, gap, entries, true));
  };
  std::vector<i64> begin(shape.size(), 0);
  do {
    if (!by_begin.contains(begin)) fail_gap(grid.cell(begin));
  } while (grid.advance(begin));
  std::vector<Tile> tiles;
  for (const ConvertedTensor& tensor : tensors) {
    Tile tile{tensor, grid.cell(begin_of(tensor, shape)), shape};
    if (tensor.at.entry && tile.where.shape[0] > 1) {  // those after it are nobody's
      ++tile.where.begin[0];
      --tile.where.shape[0];
      fail_gap(tile.where);
    }
    if (tensor.transposed && tile.their_shape().size() != 2) {
      fail_config("\"{}\" is transposed and no matrix: its part of \"{}\" is [{}]",
                  tensor.theirs,
                  tensor.ours,
                  fmt::join(tile.where.shape, ", "));
    }
    tiles.push_back(std::move(tile));
  }
  return tiles;
}

std::vector<std::byte> cut(const Tile& tile, std::span<const std::byte> parameter, i64 bytes) {
  const Rectangle whole{std::vector<i64>(tile.of.size(), 0), tile.of};
  std::vector<std::byte> memory;
  const std::span<const std::byte> block = block_of(parameter, whole, tile.where, bytes, memory);
  const std::vector<i64> theirs = tile.their_shape();
  if (tile.tensor.transposed) return transposed(block, theirs[1], theirs[0]);
  if (memory.empty()) memory.assign(block.begin(), block.end());
  return memory;
}

void put(const Tile& tile,
         std::span<const std::byte> theirs,
         std::span<std::byte> parameter,
         i64 bytes) {
  std::vector<std::byte> memory;
  if (tile.tensor.transposed) {
    const std::vector<i64> sizes = tile.their_shape();
    memory = transposed(theirs, sizes[0], sizes[1]);
    theirs = memory;
  }
  copy_block(theirs,
             tile.where.shape,
             std::vector<i64>(tile.of.size(), 0),
             parameter,
             tile.of,
             tile.where.begin,
             tile.where.shape,
             bytes);
}

}  // namespace tessera
