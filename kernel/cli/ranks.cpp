#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <vector>

#include "kernel/cli/commands.hpp"
#include "kernel/cli/show.hpp"
#include "tessera/error.hpp"
#include "tessera/io/json.hpp"
#include "tessera/io/svg.hpp"

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
  show("  {:<4}", name);
  if (groups[0].size() == 1) {
    show(" every rank by itself\n");
    return;
  }
  for (const auto& group : groups) show(" [{}]", fmt::join(group, " "));
  show("\n");
}

void print_part(const RankGenerator& ranks, std::string_view title, std::span<const Axis> axes) {
  std::vector<std::string> sizes;
  for (const Axis axis : axes) {
    sizes.push_back(fmt::format("{} {}", axis_name(axis), ranks.size(axis)));
  }
  show("{}: {}\n", title, fmt::join(sizes, ", "));
  for (const Axis axis : axes) print_groups(axis_name(axis), ranks.groups({&axis, 1}));
}

struct GroupRow {
  std::string name;
  Groups groups;
};

// Axes of more than one rank; those of experts where they differ.
std::vector<GroupRow> drawn_groups(const RankGenerator& ranks, const std::string& group) {
  if (!group.empty()) return {{group, ranks.groups(group)}};
  std::vector<GroupRow> rows;
  for (const auto& axes : {kDense, kExpert}) {
    for (const Axis axis : axes) {
      Groups groups = ranks.groups({&axis, 1});
      const bool known =
          std::ranges::any_of(rows, [&](const GroupRow& row) { return row.groups == groups; });
      if (groups[0].size() > 1 && !known) {
        rows.push_back({std::string(axis_name(axis)), std::move(groups)});
      }
    }
  }
  return rows;
}

// Neighbours in the list of groups get hues far apart.
std::string group_colour(std::size_t group) {
  return fmt::format("hsl({},65%,80%)", (212 + 137 * group) % 360);
}

// Columns are ranks, rows are axes; ranks of one group have its number and its colour.
std::string draw_ranks(const RankGenerator& ranks, const std::string& group) {
  constexpr i64 kColumns = 32, kMostDrawn = 4096;
  constexpr double kLeft = 72, kTop = 70, kCell = 36, kRow = 28, kGap = 18;
  const Layout& layout = ranks.layout();
  require(layout.world <= kMostDrawn,
          "{} ranks are too many for a picture, which shows at most {}",
          layout.world,
          kMostDrawn);
  const std::vector<GroupRow> rows = drawn_groups(ranks, group);
  const double band = kRow * static_cast<double>(rows.size() + 1) + kGap;
  const auto bands = static_cast<double>((layout.world + kColumns - 1) / kColumns);
  const double width = kLeft + kCell * static_cast<double>(std::min(layout.world, kColumns)) + 24;
  std::string out = svg_begin(std::max(width, 560.0), kTop + band * bands);
  out += svg_label(kLeft,
                   28,
                   fmt::format("{} ranks, order {}", layout.world, layout.order),
                   SvgAnchor::start,
                   "title");
  out += svg_label(kLeft,
                   50,
                   rows.empty() ? "Every rank is by itself."
                                : "Ranks with one number in a row are one group of that axis.");
  const auto x = [&](i64 rank) { return kLeft + kCell * static_cast<double>(rank % kColumns); };
  const auto y = [&](i64 rank) { return kTop + band * static_cast<double>(rank / kColumns); };
  for (i64 rank = 0; rank < layout.world; ++rank) {
    if (rank % kColumns == 0) out += svg_label(8, y(rank) + 18, "rank");
    out += svg_label(x(rank) + kCell / 2, y(rank) + 18, fmt::format("{}", rank), SvgAnchor::middle);
  }
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const double below = kRow * static_cast<double>(r + 1);
    for (i64 rank = 0; rank < layout.world; rank += kColumns) {
      out += svg_label(8, y(rank) + below + 18, rows[r].name);
    }
    for (std::size_t g = 0; g < rows[r].groups.size(); ++g) {
      const auto& members = rows[r].groups[g];
      for (const i64 rank : members) {
        out += svg_box(
            x(rank) + 1,
            y(rank) + below + 1,
            kCell - 2,
            kRow - 2,
            group_colour(g),
            fmt::format(
                "rank {}: {} group {}: {}", rank, rows[r].name, g, fmt::join(members, " ")));
        out += svg_label(
            x(rank) + kCell / 2, y(rank) + below + 18, fmt::format("{}", g), SvgAnchor::middle);
      }
    }
  }
  return out + "</svg>\n";
}

}  // namespace

int run_ranks(const RanksOptions& options) {
  const RankGenerator ranks(options.layout);
  const Layout& l = ranks.layout();
  if (!options.svg.empty()) write_output_file(options.svg, draw_ranks(ranks, options.group));
  if (!options.group.empty()) {
    const Groups groups = ranks.groups(options.group);
    if (options.json) {
      Json out;
      out.add("world_size", l.world).add("group", options.group).add("ranks", json(groups));
      show_exact(out.text() + "\n");
    } else {
      for (const auto& group : groups) show("{}\n", fmt::join(group, " "));
    }
    return 0;
  }
  if (options.json) {
    Json out;
    out.add("world_size", l.world).add("dense", json(ranks, kDense));
    show_exact(out.add("expert", json(ranks, kExpert)).text() + "\n");
    return 0;
  }
  show("world size {}, order {}\n", l.world, l.order);
  print_part(ranks, "dense", kDense);
  print_part(ranks, "expert", kExpert);
  return 0;
}

}  // namespace tessera
