#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernel/planner/report.hpp"
#include "tessera/io/size_text.hpp"

namespace tessera {

namespace {

std::string bytes_text(i64 bytes) { return size_text(static_cast<double>(bytes)); }

std::string seconds_text(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.0f} µs", seconds * 1e6);
  return seconds < 1 ? fmt::format("{:.3g} ms", seconds * 1e3) : fmt::format("{:.3g} s", seconds);
}

std::string ranks_text(const std::vector<i64>& ranks) {
  constexpr std::size_t kShown = 8;
  if (ranks.size() <= kShown) return fmt::format("[{}]", fmt::join(ranks, " "));
  return fmt::format("[{} {} {} … {}]", ranks[0], ranks[1], ranks[2], ranks.back());
}

std::string header(const Prediction& p) {
  const Layout& l = p.layout;
  std::string text = fmt::format(
      "{}: {} rank{} = tensor {} × context {} × pipeline {} × data {}{}, on {}\n"
      "a step: {} sequences of {} positions, {} microbatch{} of {} on each data-parallel rank\n"
      "model: {} parameters{}, {}FLOP a step\n",
      p.run,
      l.world,
      l.world == 1 ? "" : "s",
      l.tensor,
      l.context,
      l.pipeline,
      p.data,
      experts_text(l),
      p.hardware.name,
      p.global,
      p.sequence_length,
      p.microbatches,
      p.microbatches == 1 ? "" : "es",
      p.micro,
      short_count(static_cast<double>(p.parameters)),
      p.active_parameters == p.parameters
          ? ""
          : fmt::format(", of which a token uses {}",
                        short_count(static_cast<double>(p.active_parameters))),
      short_count(p.model_flops));
  text +=
      fmt::format("hardware table: {}{}\n",
                  p.hardware.table,
                  p.hardware.table == Hardware().table
                      ? "; `tessera calibrate` measures this host, --hardware FILE takes its table"
                  : p.table_of_run ? "; run.hardware names it"
                                   : "");
  for (const std::string& note : p.notes) text += fmt::format("note: {}\n", note);
  return text;
}

std::string groups_text(const Prediction& p) {
  std::string text = "\ngroups\n";
  if (p.groups.empty()) text += "  none: one rank\n";
  for (const PlannedGroups& groups : p.groups) {
    text += fmt::format("  {:<8} {:>4} of {:<4} {:<13} {}{}\n",
                        groups.axes,
                        groups.members.size(),
                        groups.members[0].size(),
                        groups.within_host ? "within hosts" : "between hosts",
                        ranks_text(groups.members[0]),
                        groups.members.size() > 1 ? " …" : "");
  }
  return text;
}

std::string class_name(const Prediction& p, const RankClass& of) {
  std::string name = fmt::format("rank {}", of.first);
  if (p.layout.pipeline > 1) name += fmt::format(" pipeline rank {}", of.pipeline);
  if (p.layout.context > 1) name += fmt::format(" part {}", of.context);
  if (of.ranks > 1) name += fmt::format(" and {} like it", of.ranks - 1);
  return name;
}

std::string layers_text(const std::vector<std::string>& layers) {
  if (layers.size() <= 4) return fmt::format("{}", fmt::join(layers, " "));
  return fmt::format("{} {} … {} ({} layers)", layers[0], layers[1], layers.back(), layers.size());
}

std::string rank_text(const Prediction& p, const Representative& r) {
  std::string text = fmt::format("\n{}: {}\n", class_name(p, r.of), layers_text(r.layers));
  text += fmt::format("  parameters {}, {}FLOP and {} moved by {} launches a step\n",
                      short_count(static_cast<double>(r.parameters)),
                      short_count(r.total.flops),
                      bytes_text(static_cast<i64>(r.total.bytes)),
                      r.total.launches);
  text += fmt::format(
      "  peak memory {} in use, {} held", bytes_text(r.memory.total_peak), bytes_text(r.held()));
  if (r.scratch > 0) {
    text += fmt::format(" ({} by the communicator)", bytes_text(r.scratch));
  }
  if (r.staged > 0) {
    text += fmt::format(" ({} of host blocks for staged collectives)", bytes_text(r.staged));
  }
  if (r.snapshot > 0) {
    text += fmt::format(" ({} on the host for asynchronous checkpoints)", bytes_text(r.snapshot));
  }
  text += ":";
  for (int c = 0; c < kCategories; ++c) {
    const i64 peak = r.memory.peak[static_cast<std::size_t>(c)];
    if (peak == 0) continue;
    text += fmt::format(" {} {}", category_name(static_cast<Category>(c)), bytes_text(peak));
  }
  text += "\n";
  if (r.total.inside > 0) {
    text += fmt::format("  collectives of phases {}, {:.0f} % of it hidden\n",
                        seconds_text(r.total.inside),
                        100 * std::max(0.0, 1 - r.total.waited / r.total.inside));
  }
  if (r.graphs.segments > 0) text += fmt::format("  graphs: {}\n", r.graphs.text());
  for (const Traffic& t : r.traffic) {
    text += fmt::format("  {:<8} {:<14} {:>6} {:<8} {:>9}  lane {}\n",
                        t.axes,
                        collective_name(t.kind),
                        t.calls,
                        t.calls == 1 ? "message" : "messages",
                        bytes_text(t.bytes),
                        comm_lane_name(t.lane));
  }
  return text;
}

// "gathered 3 buckets in 1.2 ms, 80 % of it hidden".
std::string overlap_text(const Prediction& p) {
  std::string text;
  constexpr std::pair<PlanAction::Kind, std::string_view> kKinds[] = {
      {PlanAction::Reduce, "gradients summed"},
      {PlanAction::Gather, "parameters gathered"},
      {PlanAction::Prepare, "weights prepared"}};
  for (std::size_t rank = 0; rank < p.timeline.overlapped.size(); ++rank) {
    for (const auto& [kind, name] : kKinds) {
      const PlannedOverlap of = overlap_of(p.timeline, rank, kind);
      if (of.buckets == 0) continue;
      text += fmt::format("  pipeline rank {}: {}: {} bucket{} in {}, {:.0f} % of it hidden\n",
                          rank,
                          name,
                          of.buckets,
                          of.buckets == 1 ? "" : "s",
                          seconds_text(of.seconds),
                          of.seconds > 0 ? 100 * of.hidden / of.seconds : 100.0);
    }
  }
  return text.empty() ? text : "\nwhile phases run\n" + text;
}

std::string replaced(std::string text, std::string_view what, std::string_view by) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size()) {
    text.replace(at, what.size(), by);
  }
  return text;
}

// Left out where it would be too long to read.
std::string picture_text(const Prediction& p) {
  constexpr i64 kMostMicrobatches = 32;
  if (p.layout.pipeline == 1 || p.microbatches > kMostMicrobatches) return "";
  return "\nschedule, as if forward took 1, backward 2, its halves 1 each\n" + p.picture;
}

// What schedule.overlap wins, and the memory that it takes.
std::string overlap_text(const Prediction& p, const Advice& advice) {
  if (!advice.other_overlap) return "";
  const Alternative now{.held = advice.fit.held, .step_seconds = p.step_seconds};
  const Alternative& with = p.overlaps ? now : *advice.other_overlap;
  const Alternative& without = p.overlaps ? *advice.other_overlap : now;
  const double gain = 1 - with.step_seconds / without.step_seconds;
  return fmt::format(
      "overlap of passes (schedule.overlap = {}): step {} with it, {} without: {:.1f} % {}; {} "
      "held with it, {} without\n",
      p.overlaps,
      seconds_text(with.step_seconds),
      seconds_text(without.step_seconds),
      100 * std::abs(gain),
      gain >= 0 ? "shorter" : "longer",
      bytes_text(with.held),
      bytes_text(without.held));
}

}  // namespace

std::string report_text(const Prediction& p) {
  std::string text = header(p) + groups_text(p);
  for (const Representative& r : p.classes) text += rank_text(p, r);
  text += picture_text(p);
  text += overlap_text(p);
  text += fmt::format("\nprediction: step {}, {} tokens/s, {}FLOP/s a rank, MFU {:.1f} %",
                      seconds_text(p.step_seconds),
                      short_count(p.tokens_per_second()),
                      short_count(p.flops_per_second_and_rank()),
                      p.mfu * 100);
  if (p.layout.pipeline > 1) text += fmt::format(", bubble {:.1f} %", p.bubble * 100);
  return text + "\n";
}

std::string advice_text(const Prediction& p, const Advice& advice) {
  const Fit& fit = advice.fit;
  const std::string who = fit.ranks == 1 ? fmt::format("rank {} holds", fit.rank)
                                         : fmt::format("ranks {} to {} of one {} hold",
                                                       fit.rank,
                                                       fit.rank + fit.ranks - 1,
                                                       fit.host ? "host" : "device");
  std::string text = fmt::format("memory: {} {}", who, bytes_text(fit.held));
  if (fit.capacity == 0) {
    text += "; --memory SIZE says whether that fits\n";
  } else if (fit.fits()) {
    text += fmt::format(" of {}: it fits\n", bytes_text(fit.capacity));
  } else {
    text += fmt::format(", {} more than the {} that there are: it does not fit\n",
                        bytes_text(fit.held - fit.capacity),
                        bytes_text(fit.capacity));
    for (const Alternative& other : advice.smaller) {
      text += fmt::format("  --set {:<32} {:>9}{}, step {}\n",
                          replaced(other.change, " ", " --set "),
                          bytes_text(other.held),
                          other.fits ? ", fits" : "",
                          seconds_text(other.step_seconds));
    }
    if (advice.smaller.empty()) {
      text +=
          "  nothing that was tried holds less: make the model smaller or take larger devices\n";
    }
  }
  text += overlap_text(p, advice);
  if (!advice.long_bubble) return text;
  text += fmt::format("warning: the bubble is long: ranks wait {:.1f} % of a step", p.bubble * 100);
  if (!advice.less_bubble)
    return text + "; no larger number of microbatches that fits was found to help\n";
  const Alternative& other = *advice.less_bubble;
  return text + fmt::format("; --set {} gives {} microbatches, bubble {:.1f} %, step {}\n",
                            other.change,
                            other.microbatches,
                            other.bubble * 100,
                            seconds_text(other.step_seconds));
}

}  // namespace tessera
