#include "kernel/planner/report.hpp"
#include "tessera/io/json.hpp"

namespace tessera {

namespace {

Json groups_json(const Prediction& p) {
  Json all;
  for (const PlannedGroups& groups : p.groups) {
    Json group;
    group.add("size", static_cast<i64>(groups.members[0].size()))
        .add("within_host", groups.within_host)
        .add("ranks", Json::array(groups.members, [](const std::vector<i64>& members) {
               return Json::array(members);
             }));
    all.add(groups.axes, group);
  }
  return all;
}

Json memory_json(const Representative& r) {
  const MemoryStats& memory = r.memory;
  Json peaks;
  for (int c = 0; c < kCategories; ++c) {
    peaks.add(category_name(static_cast<Category>(c)), memory.peak[static_cast<std::size_t>(c)]);
  }
  return peaks.add("total", memory.total_peak)
      .add("reserved", memory.reserved)
      .add("communicator", r.scratch)
      .add("staged", r.staged)
      .add("snapshot", r.snapshot)
      .add("held", r.held());
}

Json traffic_json(const Traffic& traffic) {
  return Json()
      .add("group", traffic.axes)
      .add("size", traffic.size)
      .add("within_host", traffic.within_host)
      .add("kind", collective_name(traffic.kind))
      .add("lane", comm_lane_name(traffic.lane))
      .add("messages", traffic.calls)
      .add("bytes", traffic.bytes);
}

Json graphs_json(const GraphUse& use) {
  return Json()
      .add("whole_step", use.whole_step)
      .add("segments", use.segments)
      .add("graphs", use.graphs)
      .add("slots", use.slots)
      .add("live_pairs", use.live_pairs)
      .add("input_bytes", use.input_bytes)
      .add("slot_bytes", use.slot_bytes)
      .add("scratch_bytes", use.scratch_bytes)
      .add("launches_replayed", use.replayed);
}

Json class_json(const Representative& r) {
  return Json()
      .add("rank", r.of.first)
      .add("ranks", r.of.ranks)
      .add("pipeline", r.of.pipeline)
      .add("context", r.of.context)
      .add("layers", Json::array(r.layers))
      .add("parameters", r.parameters)
      .add("peak_memory", memory_json(r))
      .add("traffic", Json::array(r.traffic, traffic_json))
      .add("graphs", graphs_json(r.graphs))
      .add("flops", r.total.flops)
      .add("moved_bytes", r.total.bytes)
      .add("launches", r.total.launches)
      .add("collective_seconds", r.total.collectives)
      .add("phase_collective_seconds", r.total.inside)
      .add("phase_waiting_seconds", r.total.waited);
}

Json overlap_json(const PlannedOverlap& of) {
  return Json()
      .add("buckets", of.buckets)
      .add("seconds", of.seconds)
      .add("hidden_seconds", of.hidden);
}

Json timeline_json(const Prediction& p) {
  Json ranks = Json::array();
  for (std::size_t rank = 0; rank < p.timeline.overlapped.size(); ++rank) {
    ranks.push(
        Json()
            .add("reduce", overlap_json(overlap_of(p.timeline, rank, PlanAction::Reduce)))
            .add("gather", overlap_json(overlap_of(p.timeline, rank, PlanAction::Gather)))
            .add("prepare", overlap_json(overlap_of(p.timeline, rank, PlanAction::Prepare))));
  }
  return ranks;
}

Json layout_json(const Prediction& p) {
  return Json()
      .add("tensor", p.layout.tensor)
      .add("expert", p.layout.expert)
      .add("expert_tensor", p.layout.expert_tensor)
      .add("context", p.layout.context)
      .add("pipeline", p.layout.pipeline)
      .add("data", p.data)
      .add("order", p.layout.order);
}

// Whether it fits is known where somebody has said the capacity.
Json alternative_json(const Alternative& other, bool capacity) {
  Json out;
  out.add("set", other.change).add("held", other.held);
  if (capacity) out.add("fits", other.fits);
  return std::move(out.add("microbatches", other.microbatches)
                       .add("bubble", other.bubble)
                       .add("step_seconds", other.step_seconds));
}

Json advice_json(const Advice& advice) {
  Json out;
  const bool capacity = advice.fit.capacity > 0;
  const auto json = [&](const Alternative& other) { return alternative_json(other, capacity); };
  out.add("held", advice.fit.held).add("ranks", advice.fit.ranks).add("rank", advice.fit.rank);
  if (capacity) {
    out.add("capacity", advice.fit.capacity).add("fits", advice.fit.fits());
  }
  out.add("smaller", Json::array(advice.smaller, json)).add("long_bubble", advice.long_bubble);
  if (advice.less_bubble) out.add("less_bubble", json(*advice.less_bubble));
  if (advice.other_overlap) out.add("other_overlap", json(*advice.other_overlap));
  return out;
}

}  // namespace

std::string report_json(const Prediction& p, const Advice* advice) {
  Json out;
  out.add("run", p.run)
      .add("hardware", p.hardware.name)
      .add("hardware_table", p.hardware.table)
      .add("world_size", p.layout.world)
      .add("layout", layout_json(p))
      .add("micro", p.micro)
      .add("microbatches", p.microbatches)
      .add("batch", p.global)
      .add("sequence_length", p.sequence_length)
      .add("parameters", p.parameters)
      .add("active_parameters", p.active_parameters)
      .add("groups", groups_json(p))
      .add("ranks", Json::array(p.classes, class_json))
      .add("flops", p.flops)
      .add("model_flops", p.model_flops)
      .add("schedule", p.picture)
      .add("pipeline_ranks", timeline_json(p))
      .add("overlap", p.overlaps)
      .add("bubble", p.bubble)
      .add("step_seconds", p.step_seconds)
      .add("tokens_per_second", p.tokens_per_second())
      .add("flops_per_second_and_rank", p.flops_per_second_and_rank())
      .add("mfu", p.mfu)
      .add("notes", Json::array(p.notes));
  if (advice != nullptr) out.add("advice", advice_json(*advice));
  return out.text();
}

}  // namespace tessera
