#include "kernel/model/placement.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "kernel/model/layout_string.hpp"
#include "tessera/error.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

namespace {

constexpr std::size_t kShown = 400;  // characters of a layout in an error

char letter(ModelLayer::Role role) {
  if (role == ModelLayer::embedding) return 'E';
  return role == ModelLayer::head ? 'L' : 't';
}

std::vector<LayerRange> cut_by_layout(std::span<const ModelLayer> layers,
                                      int stages,
                                      const std::string& layout) {
  const std::vector<std::string> parts = parse_layout(layout);
  if (static_cast<int>(parts.size()) != stages) {
    fail_config(
        "[placement] layout = {} has {} stages; parallel.pipeline × chunks of the schedule "
        "make {}",
        quote(layout, kShown),
        parts.size(),
        stages);
  }
  // Where the first head is, all is that follows it.
  const auto head = std::ranges::find(layers, ModelLayer::head, &ModelLayer::role);
  const auto written = std::min(head - layers.begin() + 1, std::ssize(layers));
  std::vector<LayerRange> ranges;
  int next = 0;
  for (std::size_t stage = 0; stage < parts.size(); ++stage) {
    const int first = next;
    for (const char c : parts[stage]) {
      if (next == static_cast<int>(layers.size()) ||
          letter(layers[static_cast<std::size_t>(next)].role) != c) {
        const auto blocks = std::ranges::count(layers, ModelLayer::block, &ModelLayer::role);
        fail_config(
            "[placement] layout = {}: \"{}\" of stage {} does not fit; the model is E, {} × t, "
            "L",
            quote(layout, kShown),
            c,
            stage,
            blocks);
      }
      ++next;
      if (next == written) next = static_cast<int>(layers.size());
    }
    ranges.push_back({first, next});
  }
  if (next != static_cast<int>(layers.size())) {
    fail_config(
        "[placement] layout = {} places {} of the model's {} layers (embedding, "
        "blocks, head)",
        quote(layout, kShown),
        next,
        written);
  }
  return ranges;
}

// Blocks of each virtual stage when no layout is given. As Megatron's flags, `first` and `last` are
// the blocks of the first and last pipeline rank, divided among its chunks.
std::vector<i64> even_counts(i64 blocks, std::span<const int> ranks, const PlacementSection& p) {
  const auto stages = static_cast<i64>(ranks.size());
  const i64 last_rank = *std::ranges::max_element(ranks);
  const i64 chunks = stages / (last_rank + 1);
  if (last_rank == 0 && (p.first || p.last)) {
    fail_config(
        "[placement] first and last are for pipelines: with parallel.pipeline = 1 one rank holds "
        "all {} blocks",
        blocks);
  }
  if (stages == 1 && (p.count_embedding || p.count_head)) {
    fail_config(
        "[placement] count_embedding and count_head are for stages that share blocks: with one "
        "stage they have no effect; set them to false");
  }
  const auto given = [&](int rank) {
    return rank == 0 ? p.first : rank == last_rank ? p.last : std::nullopt;
  };
  const bool count_first = p.count_embedding && !given(ranks.front());
  const bool count_last = p.count_head && !given(ranks.back());
  const i64 rest = blocks - p.first.value_or(0) - p.last.value_or(0) + (count_first ? 1 : 0) +
                   (count_last ? 1 : 0);
  const i64 sharing = stages - chunks * ((p.first ? 1 : 0) + (p.last ? 1 : 0));
  if (rest < 0) {
    fail_config("[placement] first and last take {} blocks; the model has {}",
                p.first.value_or(0) + p.last.value_or(0),
                blocks);
  }
  for (const auto& [key, count] : {std::pair("first", p.first), std::pair("last", p.last)}) {
    if (count && *count % chunks != 0) {
      fail_config("[placement] {} = {} blocks of a pipeline rank do not divide among its {} chunks",
                  key,
                  *count,
                  chunks);
    }
  }
  if ((sharing == 0 ? rest != 0 : rest % sharing != 0)) {
    fail_config(
        "[placement] {} blocks do not divide among {} pipeline stages{}: {} are left for {} "
        "stages; set placement.first and placement.last, or placement.layout",
        blocks,
        stages,
        count_first || count_last ? " (embedding or head counted as one)" : "",
        rest,
        sharing);
  }
  std::vector<i64> counts;
  for (const int rank : ranks) {
    const Auto<i64> own = given(rank);
    counts.push_back(own ? *own / chunks : rest / sharing);
  }
  counts.front() -= count_first ? 1 : 0;
  counts.back() -= count_last ? 1 : 0;
  return counts;
}

}  // namespace

std::vector<LayerRange> cut_layers(std::span<const ModelLayer> layers,
                                   std::span<const int> ranks,
                                   const PlacementSection& placement) {
  const int total = static_cast<int>(layers.size()), stages = static_cast<int>(ranks.size());
  std::vector<LayerRange> ranges;
  if (!placement.layout.empty()) {
    if (placement.first || placement.last || placement.count_embedding || placement.count_head) {
      fail_config("[placement] layout says where every layer goes: leave out the other keys");
    }
    ranges = cut_by_layout(layers, stages, placement.layout);
  } else {
    const auto is_block = [](const ModelLayer& layer) { return layer.role == ModelLayer::block; };
    const auto begin = std::ranges::find_if(layers, is_block) - layers.begin();
    const i64 blocks = std::ranges::count_if(layers, is_block);
    int next = static_cast<int>(begin);
    for (const i64 count : even_counts(blocks, ranks, placement)) {
      ranges.push_back({next, next + static_cast<int>(count)});
      next = ranges.back().last;
    }
    ranges.front().first = 0;
    ranges.back().last = total;
  }
  // A layout may leave stages in the middle empty on purpose: they pass on what they get.
  for (std::size_t stage = 0; stage < ranges.size(); ++stage) {
    const bool middle = stage > 0 && stage + 1 < ranges.size();
    if (ranges[stage].first == ranges[stage].last && (placement.layout.empty() || !middle)) {
      fail_config("[placement] pipeline stage {} of {} would hold no layer", stage, stages);
    }
  }
  return ranges;
}

int StageMap::stage_of_layer(int layer) const {
  const auto holds = [&](const Stage& s) {
    return layer >= s.layers.first && layer < s.layers.last;
  };
  return static_cast<int>(std::ranges::find_if(stages, holds) - stages.begin());
}

int StageMap::stage_of_chunk(int rank, int chunk) const {
  const auto is = [&](const Stage& s) { return s.rank == rank && s.chunk == chunk; };
  return static_cast<int>(std::ranges::find_if(stages, is) - stages.begin());
}

StageMap map_stages(const PipelineSchedule& schedule,
                    int ranks,
                    std::span<const ModelLayer> layers,
                    const PlacementSection& placement) {
  PipelineShape shape;
  shape.ranks = ranks;
  shape.chunks = schedule.chunks();
  const int total = ranks * shape.chunks;
  StageMap map;
  map.stages.resize(static_cast<std::size_t>(total), {{}, -1, -1});
  for (int rank = 0; rank < ranks; ++rank) {
    for (int chunk = 0; chunk < shape.chunks; ++chunk) {
      const int stage = schedule.place(shape, rank, chunk).stage;
      require(stage >= 0 && stage < total,
              "the schedule places chunk {} of rank {} at stage {}: there are {}",
              chunk,
              rank,
              stage,
              total);
      StageMap::Stage& place = map.stages[static_cast<std::size_t>(stage)];
      require(place.rank < 0, "the schedule places two chunks at stage {}", stage);
      place.rank = rank;
      place.chunk = chunk;
    }
  }
  std::vector<int> ranks_of_stages;
  for (const StageMap::Stage& stage : map.stages) ranks_of_stages.push_back(stage.rank);
  const std::vector<LayerRange> ranges = cut_layers(layers, ranks_of_stages, placement);
  for (std::size_t i = 0; i < ranges.size(); ++i) map.stages[i].layers = ranges[i];
  return map;
}

}  // namespace tessera
