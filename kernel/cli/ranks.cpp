#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <vector>

#include "kernel/cli/commands.hpp"
#include "tessera/json.hpp"

namespace tessera {
namespace {

constexpr std::array<Axis, 4> kDense = {Axis::tensor, Axis::context, Axis::data, Axis::pipeline};
constexpr std::array<Axis, 4> kExpert = {
    Axis::expert_tensor, Axis::expert, Axis::expert_data, Axis::pipeline};

using Groups = std::vector<std::vector<i64>>;

Json json(const Groups& groups) {
  return Json::array(groups, [](const std::vector<i64>& group) { return Json::array(group); });
}

Json json(const RankGenerator& ranks, std::span<const Axis> axes) {
  Json entries;
  for (const Axis axis : axes) entries.add(axis_name(axis), json(ranks.groups({&axis, 1})));
  return entries;
}

void print_groups(std::string_view name, const Groups& groups) {
  fmt::print("  {:<4}", name);
  if (groups[0].size() == 1) {
    fmt::print(" every rank by itself\n");
    return;
  }
  for (const auto& group : groups) fmt::print(" [{}]", fmt::join(group, " "));
  fmt::print("\n");
}

void print_part(const RankGenerator& ranks, std::string_view title, std::span<const Axis> axes) {
  std::vector<std::string> sizes;
  for (const Axis axis : axes) {
    sizes.push_back(fmt::format("{} {}", axis_name(axis), ranks.size(axis)));
  }
  fmt::print("{}: {}\n", title, fmt::join(sizes, ", "));
  for (const Axis axis : axes) print_groups(axis_name(axis), ranks.groups({&axis, 1}));
}

}  // namespace

int run_ranks(const RanksOptions& options) {
  const RankGenerator ranks(options.layout);
  const Layout& l = ranks.layout();
  if (!options.group.empty()) {
    const Groups groups = ranks.groups(options.group);
    if (options.json) {
      Json out;
      out.add("world_size", l.world).add("group", options.group).add("ranks", json(groups));
      fmt::print("{}\n", out.text());
    } else {
      for (const auto& group : groups) fmt::print("{}\n", fmt::join(group, " "));
    }
    return 0;
  }
  if (options.json) {
    Json out;
    out.add("world_size", l.world).add("dense", json(ranks, kDense));
    fmt::print("{}\n", out.add("expert", json(ranks, kExpert)).text());
    return 0;
  }
  fmt::print("world size {}, order {}\n", l.world, l.order);
  print_part(ranks, "dense", kDense);
  print_part(ranks, "expert", kExpert);
  return 0;
}

}  // namespace tessera
