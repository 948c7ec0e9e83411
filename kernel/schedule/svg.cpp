#include <fmt/format.h>

#include <algorithm>

#include "kernel/schedule/draw.hpp"
#include "kernel/schedule/verify.hpp"
#include "tessera/io/svg.hpp"

namespace tessera {

namespace {

constexpr double kLeft = 72, kRight = 24, kTop = 48, kRow = 26, kGap = 6;
constexpr double kOverlapped = 9;    // the row of what runs concurrently with compute
constexpr double kRows = 10;         // the row of what phases have under way, forward and backward
constexpr double kAxis = 64;         // ticks, their numbers and their unit
constexpr double kLabelWidth = 8;    // of a digit
constexpr double kTitleWidth = 9.5;  // of a character, about
constexpr double kTickPixels = 90;   // between two ticks, about
constexpr i64 kMostBlocks = 8192;    // more are megabytes that nobody looks at

// What a block is drawn as.
enum Look { kForward, kBackward, kInputs, kWeights, kAgain, kLooks };
constexpr std::string_view kNames[] = {
    "forward", "backward", "backward (inputs)", "backward (weights)", "forward again"};

Look look_of(const Timeline::Block& block) {
  return block.again ? kAgain : static_cast<Look>(block.action.kind);
}

// A hue for each look, lighter for later chunks.
std::string colour(Look look, int chunk, int chunks) {
  struct Hue {
    int hue, saturation;
  };
  constexpr Hue kHues[] = {{212, 70}, {146, 45}, {186, 45}, {38, 75}, {280, 40}};
  const auto& [hue, saturation] = kHues[look];
  const int lightness = 62 + (chunks > 1 ? 22 * chunk / (chunks - 1) : 0);
  return fmt::format("hsl({},{}%,{}%)", hue, saturation, lightness);
}

constexpr PlanAction::Kind kOverlappedRows[] = {
    PlanAction::Gather, PlanAction::Prepare, PlanAction::Reduce};

std::string overlapped_colour(PlanAction::Kind kind) {
  return kind == PlanAction::Reduce   ? "hsl(354,60%,66%)"
         : kind == PlanAction::Gather ? "hsl(262,45%,70%)"
                                      : "hsl(90,35%,62%)";
}

std::string overlapped_name(PlanAction::Kind kind) {
  return kind == PlanAction::Reduce   ? "gradients summed"
         : kind == PlanAction::Gather ? "parameters gathered"
                                      : "weights prepared";
}

std::string name(const Timeline::Block& block) {
  return fmt::format("{} of microbatch {}, chunk {}",
                     kNames[look_of(block)],
                     block.action.microbatch,
                     block.action.chunk);
}

std::string rows_colour(bool forward) { return forward ? "hsl(24,80%,62%)" : "hsl(52,70%,52%)"; }

std::string rows_name(bool forward) {
  return forward ? "rows under way, forward" : "rows under way, backward";
}

bool has_any(const auto& by_rank) {
  return std::ranges::any_of(by_rank, [](const auto& list) { return !list.empty(); });
}

std::vector<SvgKey> keys_of(const Timeline& timeline, int chunks) {
  std::vector<SvgKey> keys;
  for (int look = 0; look < kLooks; ++look) {
    for (int chunk = 0; chunk < chunks; ++chunk) {
      const bool used = std::ranges::any_of(timeline.blocks, [&](const auto& blocks) {
        return std::ranges::any_of(blocks, [&](const Timeline::Block& block) {
          return look_of(block) == look && block.action.chunk == chunk;
        });
      });
      if (!used) continue;
      keys.push_back({colour(static_cast<Look>(look), chunk, chunks),
                      chunks > 1 ? fmt::format("{}, chunk {}", kNames[look], chunk)
                                 : std::string(kNames[look])});
    }
  }
  for (const PlanAction::Kind kind : kOverlappedRows) {
    const auto used = [kind](const auto& overlapped) {
      return std::ranges::any_of(overlapped, [kind](const auto& a) { return a.kind == kind; });
    };
    if (std::ranges::any_of(timeline.overlapped, used))
      keys.push_back({overlapped_colour(kind), overlapped_name(kind)});
  }
  for (const bool forward : {true, false}) {
    if (has_any(timeline.under_way)) keys.push_back({rows_colour(forward), rows_name(forward)});
  }
  keys.push_back({"#f2f2f2", "waits"});
  return keys;
}

std::string block_text(const Timeline::Block& block, const SvgScale& x, double y, int chunks) {
  const double left = x(block.span.start), width = x(block.span.end) - left;
  std::string out = fmt::format(
      "<g><title>{}: {:.6g} to {:.6g}</title><rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" "
      "height=\"{}\" fill=\"{}\" stroke=\"white\" stroke-width=\"0.6\"/>",
      name(block),
      block.span.start,
      block.span.end,
      left,
      y,
      width,
      kRow,
      colour(look_of(block), block.action.chunk, chunks));
  const std::string label = fmt::format("{}", block.action.microbatch);
  if (width >= kLabelWidth * static_cast<double>(label.size()) + 2) {
    out += fmt::format("<text x=\"{:.2f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>",
                       left + width / 2,
                       y + kRow / 2 + 5,
                       label);
  }
  return out + "</g>\n";
}

std::string overlapped_text(const Timeline::Overlapped& overlapped, const SvgScale& x, double y) {
  const double left = x(overlapped.span.start);
  return svg_box(left,
                 y,
                 std::max(x(overlapped.span.end) - left, 0.5),
                 kOverlapped,
                 overlapped_colour(overlapped.kind),
                 fmt::format("bucket {}, {}: {:.6g} to {:.6g}",
                             overlapped.bucket,
                             overlapped_name(overlapped.kind),
                             overlapped.span.start,
                             overlapped.span.end));
}

std::string rows_text(const Timeline::UnderWay& rows, const SvgScale& x, double y) {
  const double left = x(rows.span.start);
  return svg_box(
      left,
      y + (rows.forward ? 0 : kRows / 2),
      std::max(x(rows.span.end) - left, 0.5),
      kRows / 2,
      rows_colour(rows.forward),
      fmt::format("{}: {:.6g} to {:.6g}", rows_name(rows.forward), rows.span.start, rows.span.end));
}

}  // namespace

std::string bubble_text(const Timeline& timeline, const PlayedTimes& times) {
  return fmt::format("bubble {:.1f}% ({})", 100 * timeline.bubble(), times.from);
}

std::string draw_svg(const Timeline& timeline,
                     int chunks,
                     std::string_view title,
                     const PlayedTimes& times) {
  const bool has_overlapped = has_any(timeline.overlapped), has_rows = has_any(timeline.under_way);
  const double row =
      kRow + kGap + (has_overlapped ? kOverlapped + 1 : 0) + (has_rows ? kRows + 1 : 0);
  std::size_t most = 1;
  for (const auto& blocks : timeline.blocks) most = std::max(most, blocks.size());
  const double inner = std::clamp(30.0 * static_cast<double>(most), 600.0, 16000.0);
  const SvgScale x{0, std::max(timeline.makespan, 1e-12), kLeft, kLeft + inner};
  const double base = kTop + row * static_cast<double>(timeline.blocks.size());
  const std::string heading = fmt::format("{}: {}", title, bubble_text(timeline, times));
  const double of_heading = kLeft + kTitleWidth * static_cast<double>(heading.size());
  const double width = std::max(x.to, of_heading) + kRight;
  const std::vector<SvgKey> keys = keys_of(timeline, chunks);
  std::string out =
      svg_begin(width, base + kAxis + kSvgLegendRow * svg_legend_rows(kLeft, x.to, keys));
  out += svg_label(kLeft, 26, heading, SvgAnchor::start, "title");
  for (std::size_t rank = 0; rank < timeline.blocks.size(); ++rank) {
    const double y = kTop + row * static_cast<double>(rank);
    out += svg_label(8, y + kRow / 2 + 4, fmt::format("rank {}", rank));
    out += svg_box(kLeft, y, inner, kRow, "#f2f2f2");
    for (const Timeline::Block& block : timeline.blocks[rank]) {
      out += block_text(block, x, y, chunks);
    }
    if (has_overlapped) {
      for (const Timeline::Overlapped& overlapped : timeline.overlapped[rank]) {
        out += overlapped_text(overlapped, x, y + kRow + 1);
      }
    }
    if (!has_rows) continue;
    for (const Timeline::UnderWay& rows : timeline.under_way[rank]) {
      out += rows_text(rows, x, y + kRow + (has_overlapped ? kOverlapped + 1 : 0) + 1);
    }
  }
  out += svg_axis(
      x, base, static_cast<int>(inner / kTickPixels), fmt::format("time in {}", times.unit));
  return out + svg_legend(kLeft, base + kAxis - 8, x.to, keys) + "</svg>\n";
}

std::string draw_svg(const PipelineSchedule& schedule,
                     const PipelineShape& shape,
                     std::string_view title) {
  const i64 blocks = i64{2} * shape.ranks * shape.chunks * shape.microbatches;
  if (blocks > kMostBlocks) return "";
  return draw_svg(play(verify(schedule, shape).orders), shape.chunks, title, kUnitTimes);
}

}  // namespace tessera
