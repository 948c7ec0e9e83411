#include "kernel/train/setup/own_units.hpp"

#include <map>
#include <set>

#include "kernel/comm/control_plane/rank_list.hpp"
#include "tessera/error.hpp"

namespace tessera {

void require_enough_units(const std::string& device,
                          const DeviceUnits& units,
                          i64 ranks,
                          i64 share) {
  if (units.count == 0) {
    fail_config(
        "device \"{}\": {}; choose another device (device.type = \"cpu\")", device, units.text);
  }
  if (ranks <= units.count * share) return;
  fail_config(
      "device \"{}\" has no unit for each of {} ranks: {}{}; start at most {}, or let {} ranks "
      "have one (device.share = {})",
      device,
      ranks,
      units.text,
      share == 1 ? "" : fmt::format(", for {} ranks each (device.share)", share),
      units.count * share,
      (ranks + units.count - 1) / units.count,
      (ranks + units.count - 1) / units.count);
}

void require_own_units(const std::vector<std::string>& ids,
                       const std::vector<std::string>& texts,
                       i64 share) {
  std::map<std::string, std::vector<i64>> ranks;
  for (std::size_t rank = 0; rank < ids.size(); ++rank) {
    std::vector<i64>& same = ranks[ids[rank]];
    same.push_back(static_cast<i64>(rank));
  }
  for (const auto& [id, same] : ranks) {
    if (static_cast<i64>(same.size()) <= share) continue;
    fail_config(
        "{} compute on the same hardware: {}; start each where it sees one of its own, or let {} "
        "ranks have one (device.share = {})",
        rank_list(same),
        texts[static_cast<std::size_t>(same.front())],
        same.size(),
        same.size());
  }
}

double units_per_rank(const std::vector<std::string>& ids) {
  const std::set<std::string> units(ids.begin(), ids.end());
  return static_cast<double>(units.size()) / static_cast<double>(ids.size());
}

}  // namespace tessera
