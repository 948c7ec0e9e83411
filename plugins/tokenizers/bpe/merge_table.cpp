#include "merge_table.hpp"

#include <algorithm>
#include <tuple>

namespace tessera {

std::vector<MergeTable::Entry> MergeTable::ordered() const {
  std::vector<Entry> found;
  std::ranges::copy_if(
      entries_, std::back_inserter(found), [](const Entry& entry) { return entry.left >= 0; });
  std::ranges::sort(
      found, {}, [](const Entry& entry) { return std::tuple(entry.left, entry.right); });
  return found;
}

}  // namespace tessera
