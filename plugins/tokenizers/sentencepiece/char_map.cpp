#include "char_map.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "tessera/types.hpp"

namespace tessera {

namespace {

constexpr std::size_t kMostEnds = 32;  // texts that begin each other: what the library notes

class Trie {
 public:
  Trie(std::string_view units, std::string_view texts)
      : units_(units.size() / sizeof(u32)), texts_(texts) {
    std::memcpy(units_.data(), units.data(), units_.size() * sizeof(u32));
  }

  std::string_view damage() {
    if (units_.empty()) return "it has no units";
    if (texts_.empty() || texts_.back() != '\0') return "its texts do not end";
    ends_.assign(units_.size(), kUnknown);
    walk();
    return damage_;
  }

 private:
  static constexpr u32 kUnknown = ~u32{0}, kOpen = kUnknown - 1;
  struct Node {
    std::size_t at = 0;  // of its unit
    u32 next = 0;        // label of the child that is looked at next
    u32 most = 0;        // ends below
  };

  std::size_t base(std::size_t at) const {
    const u32 unit = units_[at];
    return at ^ static_cast<std::size_t>((unit >> 10) << ((unit & (u32{1} << 9)) >> 6));
  }
  bool is_end(std::size_t at) const { return (units_[at] >> 8 & 1) != 0; }

  // True where the children of a unit, and the text that comes instead, are inside.
  bool inside(std::size_t at) {
    const std::size_t children = base(at);
    if ((children | 0xFF) >= units_.size()) {
      damage_ = "a unit has children outside of it";
    } else if (is_end(at) && (units_[children] & 0x7FFFFFFF) >= texts_.size()) {
      damage_ = "a text is outside of it";
    }
    return damage_.empty();
  }

  // Depth first; the number of ends from each unit on is known when it is left.
  void walk() {
    std::vector<Node> path;
    if (!inside(0)) return;
    path.push_back({});
    ends_[0] = kOpen;
    while (!path.empty()) {
      Node& node = path.back();
      if (node.next > 0xFF) {
        const u32 ends = node.most + (is_end(node.at) ? 1 : 0);
        if (ends > kMostEnds) {
          damage_ = "too many of its texts begin each other";
          return;
        }
        ends_[node.at] = ends;
        path.pop_back();
        if (!path.empty()) path.back().most = std::max(path.back().most, ends);
        continue;
      }
      const u32 label = node.next++;
      const std::size_t child = base(node.at) ^ label;
      // Bit 31 is of units of ends, which no text reaches.
      if ((units_[child] & 0x800000FF) != label) continue;
      if (ends_[child] == kOpen) {
        damage_ = "it goes round in circles";
        return;
      }
      if (ends_[child] != kUnknown) {
        node.most = std::max(node.most, ends_[child]);
        continue;
      }
      if (!inside(child)) return;
      ends_[child] = kOpen;
      path.push_back({.at = child});
    }
  }

  std::vector<u32> units_;
  std::string_view texts_, damage_;
  std::vector<u32> ends_;  // on the longest way from a unit on
};

}  // namespace

std::string_view char_map_damage(std::string_view map) {
  if (map.empty()) return {};
  u32 size = 0;
  if (map.size() <= sizeof size) return "it is cut short";
  std::memcpy(&size, map.data(), sizeof size);
  map.remove_prefix(sizeof size);
  if (size >= map.size() || size % sizeof(u32) != 0) return "its trie has another size";
  return Trie(map.substr(0, size), map.substr(size)).damage();
}

}  // namespace tessera
