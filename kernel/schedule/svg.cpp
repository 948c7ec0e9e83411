#include <fmt/format.h>

#include <algorithm>

#include "kernel/schedule/draw.hpp"
#include "tessera/svg.hpp"

namespace tessera {

namespace {

constexpr double kLeft = 64, kTop = 48, kRow = 26, kGap = 6, kBottom = 30;
constexpr double kLabelWidth = 7;  // of a character

// What a block is drawn as.
enum Look { kForward, kBackward, kInputs, kWeights, kAgain, kLooks };
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

std::string name(const Timeline::Block& block) {
  constexpr std::string_view kNames[] = {
      "forward", "backward", "backward (inputs)", "backward (weights)", "forward again"};
  return fmt::format("{} of microbatch {}, chunk {}",
                     kNames[look_of(block)],
                     block.action.microbatch,
                     block.action.chunk);
}

std::string legend(const Timeline& timeline, int chunks, double y) {
  std::string out;
  double x = kLeft;
  constexpr std::string_view kNames[] = {"F", "B", "B inputs", "B weights", "F again"};
  for (int look = 0; look < kLooks; ++look) {
    for (int chunk = 0; chunk < chunks; ++chunk) {
      const bool used = std::ranges::any_of(timeline.blocks, [&](const auto& blocks) {
        return std::ranges::any_of(blocks, [&](const Timeline::Block& block) {
          return look_of(block) == look && block.action.chunk == chunk;
        });
      });
      if (!used) continue;
      const std::string text =
          chunks > 1 ? fmt::format("{} chunk {}", kNames[look], chunk) : std::string(kNames[look]);
      out += fmt::format(
          "<rect x=\"{}\" y=\"{}\" width=\"12\" height=\"12\" fill=\"{}\"/>"
          "<text x=\"{}\" y=\"{}\">{}</text>\n",
          x,
          y,
          colour(static_cast<Look>(look), chunk, chunks),
          x + 16,
          y + 10,
          text);
      x += 28 + kLabelWidth * static_cast<double>(text.size());
    }
  }
  return out;
}

}  // namespace

std::string draw_svg(const Timeline& timeline, int chunks, std::string_view title) {
  std::size_t most = 1;
  for (const auto& blocks : timeline.blocks) most = std::max(most, blocks.size());
  const double inner = std::clamp(30.0 * static_cast<double>(most), 600.0, 16000.0);
  const double scale = timeline.makespan > 0 ? inner / timeline.makespan : 0;
  const double height = kTop + (kRow + kGap) * static_cast<double>(timeline.blocks.size());
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"sans-serif\" font-size=\"11\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
      "<text x=\"{2}\" y=\"20\" font-size=\"14\">{3}: bubble {4:.1f}%</text>\n",
      kLeft + inner + 16,
      height + kBottom,
      kLeft,
      svg_text(title),
      100 * timeline.bubble());
  for (std::size_t rank = 0; rank < timeline.blocks.size(); ++rank) {
    const double y = kTop + (kRow + kGap) * static_cast<double>(rank);
    out += fmt::format(
        "<text x=\"8\" y=\"{:.1f}\">rank {}</text>"
        "<rect x=\"{}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{}\" fill=\"#f2f2f2\"/>\n",
        y + kRow / 2 + 4,
        rank,
        kLeft,
        y,
        inner,
        kRow);
    for (const Timeline::Block& block : timeline.blocks[rank]) {
      const double x = kLeft + block.span.start * scale;
      const double width = (block.span.end - block.span.start) * scale;
      out += fmt::format(
          "<g><title>{}: {:.6g} to {:.6g}</title><rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" "
          "height=\"{}\" fill=\"{}\" stroke=\"white\" stroke-width=\"0.6\"/>",
          name(block),
          block.span.start,
          block.span.end,
          x,
          y,
          width,
          kRow,
          colour(look_of(block), block.action.chunk, chunks));
      const std::string label = fmt::format("{}", block.action.microbatch);
      if (width >= kLabelWidth * static_cast<double>(label.size()) + 2) {
        out += fmt::format("<text x=\"{:.2f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>",
                           x + width / 2,
                           y + kRow / 2 + 4,
                           label);
      }
      out += "</g>\n";
    }
  }
  return out + legend(timeline, chunks, height + 6) + "</svg>\n";
}

}  // namespace tessera
