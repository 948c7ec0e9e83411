#include "kernel/planner/optimizer_ranges.hpp"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "kernel/dry/dry_rank.hpp"
#include "kernel/planner/planned_data.hpp"
#include "kernel/train/setup/make_rank.hpp"
#include "kernel/train/setup/placed_model.hpp"
#include "tessera/io/json.hpp"

namespace tessera {

namespace {

using NamedRange = std::pair<std::string_view, FlatRange ShardRanges::*>;
constexpr std::array<NamedRange, 4> kRanges = {NamedRange{"world", &ShardRanges::world},
                                               NamedRange{"local", &ShardRanges::local},
                                               NamedRange{"param", &ShardRanges::param},
                                               NamedRange{"bucket", &ShardRanges::bucket}};

OptimizerRanges::Bucket ranges_of(const ParameterBucket& from, const Mesh& mesh) {
  const bool whole = from.members.front().shard != ParameterBucket::kCut;
  OptimizerRanges::Bucket bucket{from.begin, from.elements, from.shards, whole, {}};
  const ParameterLayout& layout = from.members.front().parameter->layout;
  const std::vector<i64>& replicas = layout.replicas(mesh).members();
  for (const ParameterBucket::Member& member : from.members) {
    OptimizerRanges::Of& of = bucket.parameters.emplace_back();
    of.name = member.parameter->name;
    for (i64 shard = 0; shard < from.shards; ++shard) {
      const ShardRanges ranges = shard_ranges(from, member, shard);
      // Where buckets are not cut, every replica updates all.
      const i64 rank = from.shards > 1 ? replicas.at(static_cast<std::size_t>(shard)) : mesh.rank();
      if (ranges.param.length > 0) of.parts.push_back({rank, ranges});
    }
  }
  return bucket;
}

std::string shards_text(const OptimizerRanges::Bucket& bucket) {
  if (bucket.whole) return fmt::format("whole parameters shared out to {}", bucket.shards);
  return fmt::format("{} shard{} of {}",
                     bucket.shards,
                     bucket.shards == 1 ? "" : "s",
                     bucket.elements / bucket.shards);
}

i64 end_of(const FlatRange& range) { return range.begin + range.length; }

}  // namespace

std::vector<OptimizerRanges> optimizer_ranges(const PlanArguments& arguments) {
  std::string note;
  const RunSetup setup =
      derive_planned_setup(*arguments.config, *arguments.plugins, arguments.world, note);
  const auto device = make_planned_device(rank_spec_of(setup), arguments.threads);
  std::vector<OptimizerRanges> all;
  for (const RankClass& of : rank_classes(RankGenerator(setup.layout))) {
    if (of.context > 0) continue;  // a replica of a rank that is listed
    const Rank rank = dry_rank(setup.layout, of.first, device);
    PlacedModel model(rank, setup);
    OptimizerRanges& ranges = all.emplace_back();
    ranges.of = of;
    for (const ParameterBucket& bucket : model.memory().buckets()) {
      ranges.buckets.push_back(ranges_of(bucket, *rank.mesh));
    }
  }
  return all;
}

std::string optimizer_ranges_text(const std::vector<OptimizerRanges>& all) {
  std::string text;
  for (const OptimizerRanges& ranges : all) {
    text += fmt::format(
        "pipeline rank {}, replicas of rank {} (its other replica groups have the same ranges)\n",
        ranges.of.pipeline,
        ranges.of.first);
    for (std::size_t b = 0; b < ranges.buckets.size(); ++b) {
      const OptimizerRanges::Bucket& bucket = ranges.buckets[b];
      text += fmt::format("  bucket {}: elements [{}, {}), {}\n",
                          b,
                          bucket.begin,
                          bucket.begin + bucket.elements,
                          shards_text(bucket));
      for (const OptimizerRanges::Of& of : bucket.parameters) {
        text += fmt::format("    {}\n", of.name);
        for (const OptimizerRanges::Part& part : of.parts) {
          text += fmt::format("      rank {:<4}", part.rank);
          for (const auto& [name, member] : kRanges) {
            const FlatRange& range = part.ranges.*member;
            text += fmt::format("  {} [{}, {})", name, range.begin, end_of(range));
          }
          text += '\n';
        }
      }
    }
  }
  return text;
}

std::string optimizer_ranges_json(const std::vector<OptimizerRanges>& all) {
  const auto part_json = [](const OptimizerRanges::Part& part) {
    Json json;
    json.add("rank", part.rank);
    for (const auto& [name, member] : kRanges) {
      const FlatRange& range = part.ranges.*member;
      json.add(name, Json::array(std::array{range.begin, end_of(range)}));
    }
    return json;
  };
  const auto parameter_json = [&](const OptimizerRanges::Of& of) {
    return Json().add("name", of.name).add("parts", Json::array(of.parts, part_json));
  };
  const auto bucket_json = [&](const OptimizerRanges::Bucket& bucket) {
    return Json()
        .add("begin", bucket.begin)
        .add("elements", bucket.elements)
        .add("shards", bucket.shards)
        .add("whole_parameters", bucket.whole)
        .add("parameters", Json::array(bucket.parameters, parameter_json));
  };
  return Json()
      .add("pipeline_ranks",
           Json::array(all,
                       [&](const OptimizerRanges& ranges) {
                         return Json()
                             .add("pipeline", ranges.of.pipeline)
                             .add("rank", ranges.of.first)
                             .add("buckets", Json::array(ranges.buckets, bucket_json));
                       }))
      .text();
}

}  // namespace tessera
