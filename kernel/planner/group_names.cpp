#include "kernel/planner/group_names.hpp"

#include <algorithm>

namespace tessera {

namespace {

// The dense axes of an expert axis, where experts lie as the dense part does.
std::string_view dense(std::string_view axis) {
  if (axis == "etp") return "tp";
  if (axis == "edp") return "dp-cp";
  return axis == "ep" ? "" : axis;
}

}  // namespace

std::string shown_group(std::string_view name, const RankGenerator& ranks) {
  const Layout& layout = ranks.layout();
  const bool own = layout.expert > 1 || layout.expert_tensor != layout.tensor;
  std::string shown;
  const auto add = [&](auto&& self, std::string_view axes) -> void {
    while (!axes.empty()) {
      const std::string_view axis = axes.substr(0, axes.find('-'));
      axes.remove_prefix(std::min(axis.size() + 1, axes.size()));
      if (const std::string_view other = dense(axis); !own && other != axis) {
        self(self, other);
      } else if (ranks.groups(axis)[0].size() > 1) {
        shown += (shown.empty() ? "" : "-") + std::string(axis);
      }
    }
  };
  add(add, name == "world" ? "tp-cp-dp-pp" : name);
  return shown;
}

}  // namespace tessera
