#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "tessera/bounds.hpp"
#include "tessera/error.hpp"
#include "tessera/io/written.hpp"
#include "tessera/mesh.hpp"

namespace tessera {
namespace {

constexpr std::array<std::string_view, kAxes> kNames = {"tp", "cp", "dp", "pp", "etp", "ep", "edp"};

template <class... T>
[[noreturn]] void fail_layout(std::string_view member,
                              fmt::format_string<T...> text,
                              T&&... values) {
  throw LayoutError(member, fmt::format(text, std::forward<T>(values)...));
}

using Sizes = std::array<i64, kAxes>;  // by axis
constexpr std::size_t axis_index(Axis axis) { return static_cast<std::size_t>(axis); }

// Sizes that the user gives. Of several that do not go together the first is to be changed.
struct GivenSize {
  Axis axis;
  std::string_view member;  // of Layout
};
constexpr std::array<GivenSize, 5> kGivenSizes = {{{Axis::tensor, "tensor"},
                                                   {Axis::context, "context"},
                                                   {Axis::pipeline, "pipeline"},
                                                   {Axis::expert, "expert"},
                                                   {Axis::expert_tensor, "expert_tensor"}}};

// The first size along `axes` that is larger than 1.
std::string_view larger_than_one(const Sizes& sizes, std::span<const Axis> axes) {
  for (const auto& [axis, member] : kGivenSizes) {
    if (sizes[axis_index(axis)] > 1 && std::find(axes.begin(), axes.end(), axis) != axes.end()) {
      return member;
    }
  }
  return kGivenSizes[0].member;
}

// What an order may name, and what each name stands for in the two decompositions. `ep` does not
// arrange the dense part, nor `cp` the experts.
struct OrderName {
  std::string_view name;
  Axis dense, expert;
  bool in_dense = true, in_expert = true;
};
constexpr std::array<OrderName, 5> kOrderNames = {{
    {"tp", Axis::tensor, Axis::expert_tensor},
    {"cp", Axis::context, Axis::context, true, false},
    {"ep", Axis::expert, Axis::expert, false, true},
    {"dp", Axis::data, Axis::expert_data},
    {"pp", Axis::pipeline, Axis::pipeline},
}};

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  for (;;) {
    const auto dash = text.find('-');
    parts.push_back(text.substr(0, dash));
    if (dash == std::string_view::npos) return parts;
    text.remove_prefix(dash + 1);
  }
}

// The order's entries, with what it leaves out at the end: right if their size is 1, which the
// caller checks.
std::vector<OrderName> parse_order(const std::string& order, std::size_t& named) {
  std::vector<OrderName> entries;
  const auto listed = [&](std::string_view name) {
    return std::any_of(
        entries.begin(), entries.end(), [&](const OrderName& e) { return e.name == name; });
  };
  for (std::string_view name : split(order)) {
    const auto* known = std::find_if(
        kOrderNames.begin(), kOrderNames.end(), [&](const OrderName& e) { return e.name == name; });
    if (known == kOrderNames.end()) {
      fail_layout("order",
                  "order {}: unknown axis {}; known are tp, cp, ep, dp, pp",
                  quote(order),
                  quote(name));
    }
    if (listed(name)) fail_layout("order", "order {} names {} twice", quote(order), name);
    entries.push_back(*known);
  }
  named = entries.size();
  for (const OrderName& entry : kOrderNames) {
    if (!listed(entry.name)) entries.push_back(entry);
  }
  return entries;
}

// What is left of the world for data parallelism.
i64 remaining(i64 world, const Sizes& sizes, std::span<const Axis> axes, std::string_view what) {
  std::vector<std::string_view> names;
  std::vector<i64> factors;
  i64 product = 1;
  for (const Axis axis : axes) {
    names.push_back(axis_name(axis));
    factors.push_back(sizes[axis_index(axis)]);
    product *= factors.back();
  }
  if (world % product != 0) {
    fail_layout(larger_than_one(sizes, axes),
                "world size {} is not divisible by {} = {} = {}, so {} has no whole size",
                world,
                fmt::join(names, "·"),
                fmt::join(factors, "·"),
                product,
                what);
  }
  return world / product;
}

// All groups along `axes`. `d` is a Decomposition: axes, fastest first, and their sizes.
template <class D>
std::vector<std::vector<i64>> groups_of(const D& d, std::span<const Axis> axes) {
  // Offsets of the ranks reached by the axes of one kind, the generator's fastest axis first.
  std::vector<i64> inside = {0}, outside = {0};
  i64 stride = 1;
  for (std::size_t i = 0; i < d.axes.size(); ++i) {
    const bool along = std::find(axes.begin(), axes.end(), d.axes[i]) != axes.end();
    std::vector<i64>& offsets = along ? inside : outside;
    const std::size_t faster = offsets.size();
    for (i64 c = 1; c < d.sizes[i]; ++c) {
      for (std::size_t k = 0; k < faster; ++k) offsets.push_back(offsets[k] + c * stride);
    }
    stride *= d.sizes[i];
  }
  std::vector<std::vector<i64>> groups;
  groups.reserve(outside.size());
  for (i64 first : outside) {
    std::vector<i64>& group = groups.emplace_back(inside);
    for (i64& rank : group) rank += first;
  }
  return groups;
}

// Both decompositions must cut the world into the same pipelines: a layer's dense part and its
// experts live on one stage.
template <class D>
void check_pipelines(const Layout& l, const D& dense, const D& expert, i64 data, i64 expert_data) {
  if (l.pipeline == 1) return;
  const auto sizes = [&] {
    return fmt::format("world size {}, pp = {}, tp·cp·dp = {}·{}·{}, etp·ep·edp = {}·{}·{}",
                       l.world,
                       l.pipeline,
                       l.tensor,
                       l.context,
                       data,
                       l.expert_tensor,
                       l.expert,
                       expert_data);
  };
  if (!l.order.ends_with("pp") && data != expert_data) {  // Megatron-Core's rule
    fail_layout("order",
                "order \"{}\" does not end in pp, so dp and edp must be equal, but dp = {} and "
                "edp = {} ({})",
                l.order,
                data,
                expert_data,
                sizes());
  }
  const std::array<Axis, 1> pp = {Axis::pipeline};
  const auto a = groups_of(dense, pp);
  const auto b = groups_of(expert, pp);
  const auto different = std::mismatch(a.begin(), a.end(), b.begin());
  if (different.first == a.end()) return;
  fail_layout(
      "order",
      "order \"{}\": pipeline group {} is [{}] for the dense part and [{}] for the experts; "
      "put pp last in the order ({})",
      l.order,
      different.first - a.begin(),
      fmt::join(*different.first, ", "),
      fmt::join(*different.second, ", "),
      sizes());
}

}  // namespace

std::string_view axis_name(Axis axis) { return kNames[axis_index(axis)]; }

LayoutError::LayoutError(std::string_view member, const std::string& text)
    : ConfigError(text), member_(member) {}
LayoutError::~LayoutError() = default;

RankGenerator::RankGenerator(Layout layout) : layout_(std::move(layout)) {
  Layout& l = layout_;
  if (l.world < 1 || l.world > kMostRanks) {
    fail_layout("world", "world size {} is not between 1 and {}", l.world, kMostRanks);
  }
  if (l.expert_tensor == 0) l.expert_tensor = l.tensor;
  Sizes sizes{};
  const auto at = [&](Axis axis) -> i64& { return sizes[axis_index(axis)]; };
  at(Axis::tensor) = l.tensor;
  at(Axis::context) = l.context;
  at(Axis::pipeline) = l.pipeline;
  at(Axis::expert_tensor) = l.expert_tensor;
  at(Axis::expert) = l.expert;
  for (const auto& [axis, member] : kGivenSizes) {
    const std::string_view name = axis_name(axis);
    const i64 size = at(axis);
    if (size < 1) fail_layout(member, "{} = {}: a parallel size is at least 1", name, size);
    if (size > l.world) {
      fail_layout(member, "{} = {} needs {} ranks; there are {}", member, size, size, l.world);
    }
  }
  constexpr std::array kDense = {Axis::tensor, Axis::context, Axis::pipeline};
  constexpr std::array kExperts = {Axis::expert_tensor, Axis::expert, Axis::pipeline};
  const i64 data = at(Axis::data) = remaining(l.world, sizes, kDense, "dp");
  const i64 expert_data = at(Axis::expert_data) = remaining(l.world, sizes, kExperts, "edp");

  std::size_t named = 0;
  const std::vector<OrderName> order = parse_order(l.order, named);
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto add = [&](Decomposition& to, Axis axis) {
      if (i >= named && at(axis) > 1) {
        fail_layout("order",
                    "order \"{}\" leaves out {}, but {} = {}",
                    l.order,
                    order[i].name,
                    axis_name(axis),
                    at(axis));
      }
      to.axes.push_back(axis);
      to.sizes.push_back(at(axis));
    };
    if (order[i].in_dense) add(dense_, order[i].dense);
    if (order[i].in_expert) add(expert_, order[i].expert);
  }
  check_pipelines(l, dense_, expert_, data, expert_data);
}

const RankGenerator::Decomposition& RankGenerator::decomposition(Axis axis) const {
  const auto& axes = dense_.axes;
  return std::find(axes.begin(), axes.end(), axis) != axes.end() ? dense_ : expert_;
}

i64 RankGenerator::size(Axis axis) const {
  const Decomposition& d = decomposition(axis);
  const auto at = std::find(d.axes.begin(), d.axes.end(), axis);
  return d.sizes[static_cast<std::size_t>(at - d.axes.begin())];
}

i64 RankGenerator::coordinate(i64 rank, Axis axis) const {
  require(rank >= 0 && rank < layout_.world,
          "rank {} is not in a world of size {}",
          rank,
          layout_.world);
  const Decomposition& d = decomposition(axis);
  for (std::size_t i = 0; d.axes[i] != axis; ++i) rank /= d.sizes[i];
  return rank % size(axis);
}

std::vector<std::vector<i64>> RankGenerator::groups(std::span<const Axis> axes) const {
  require(!axes.empty(), "no axis to group ranks along");
  // pipeline belongs to both, so any other axis decides.
  const auto decides =
      std::find_if(axes.begin(), axes.end(), [](Axis axis) { return axis != Axis::pipeline; });
  const Decomposition& d = decomposition(decides == axes.end() ? Axis::pipeline : *decides);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (std::find(d.axes.begin(), d.axes.end(), axes[i]) == d.axes.end()) {
      fail_config(
          "no group along both {} and {}: tp, cp, dp arrange the dense part, etp, ep, edp the "
          "experts, pp both",
          axis_name(*decides),
          axis_name(axes[i]));
    }
    if (std::find(axes.begin(), axes.begin() + static_cast<std::ptrdiff_t>(i), axes[i]) !=
        axes.begin() + static_cast<std::ptrdiff_t>(i)) {
      fail_config("axis {} is given twice for one group", axis_name(axes[i]));
    }
  }
  return groups_of(d, axes);
}

std::vector<std::vector<i64>> RankGenerator::groups(std::string_view axes) const {
  std::vector<Axis> list;
  for (std::string_view name : split(axes)) {
    const auto* at = std::find(kNames.begin(), kNames.end(), name);
    if (at == kNames.end()) {
      fail_config(
          "group \"{}\": unknown axis \"{}\"; known are {}", axes, name, fmt::join(kNames, ", "));
    }
    list.push_back(static_cast<Axis>(at - kNames.begin()));
  }
  return groups(list);
}

}  // namespace tessera
