#include "chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "tessera/io/svg.hpp"

namespace tessera {
namespace {

constexpr double kLeft = 76, kRight = 24, kTop = 64, kBottom = 60;
constexpr double kLegend = 180, kLegendRow = 24;   // the width of an entry; a row of its own
constexpr double kTitle = 9.5;                     // the width of a character, about
constexpr double kTickPixels = 95, kTickRow = 60;  // between two ticks, about
/// More vertices than this add bytes but nothing that a screen shows.
constexpr std::size_t kMostVertices = 1600;

constexpr std::string_view kStyle =
    R"(  .curve { fill: none; stroke-linejoin: round; stroke-linecap: round }
  .train { stroke: #0969da; stroke-width: 1; opacity: .28 }
  .smooth { stroke: #0969da; stroke-width: 2.2 }
  .validation { stroke: #d1570b; stroke-width: 1.4; stroke-dasharray: 5 4 }
  .dot { fill: #fff; stroke: #d1570b; stroke-width: 2 }
)";

struct Frame {
  SvgScale x, y;
  double top = kTop, legend = 31;  ///< where curves and the legend's row are
  double px(i64 step) const { return x(static_cast<double>(step)); }
};

/// Keeps at most about kMostVertices points: the lowest and the highest of each run, in order.
std::vector<Point> thinned(const std::vector<Point>& points) {
  if (points.size() <= kMostVertices) return points;
  std::vector<Point> out;
  constexpr std::size_t kRuns = kMostVertices / 2;
  for (std::size_t run = 0; run < kRuns; ++run) {
    const auto begin = points.begin() + static_cast<i64>(points.size() * run / kRuns);
    const auto end = points.begin() + static_cast<i64>(points.size() * (run + 1) / kRuns);
    auto [low, high] = std::minmax_element(
        begin, end, [](const Point& a, const Point& b) { return a.value < b.value; });
    if (low > high) std::swap(low, high);
    out.push_back(*low);
    if (low != high) out.push_back(*high);
  }
  return out;
}

std::string path(const Frame& frame, const std::vector<Point>& points, std::string_view style) {
  if (points.empty()) return "";
  std::string out = fmt::format("<path class=\"curve {}\" d=\"", style);
  char command = 'M';
  for (const Point& point : thinned(points)) {
    out += fmt::format("{}{:.1f} {:.1f}", command, frame.px(point.step), frame.y(point.value));
    command = 'L';
  }
  return out + "\"/>\n";
}

void add(SvgScale& scale, double value, bool first) {
  scale.low = first ? value : std::min(scale.low, value);
  scale.high = first ? value : std::max(scale.high, value);
}

double legend_begin(const Chart& chart) {
  return chart.width - kRight - kLegend * (chart.checked.empty() ? 1 : 2);
}

Frame frame_of(const Chart& chart, const std::vector<Point>& smooth) {
  Frame frame;
  // The legend is in the title's row, to the right, or below it where they would meet.
  const double title = kLeft + kTitle * static_cast<double>(chart.title.size());
  if (title > legend_begin(chart)) {
    frame.top += kLegendRow;
    frame.legend += kLegendRow;
  }
  frame.x.from = kLeft;
  frame.x.to = chart.width - kRight;
  frame.y.from = chart.height - kBottom;
  frame.y.to = frame.top;
  bool first = true;
  for (const auto* points : {&chart.measured, &chart.checked}) {
    for (const Point& point : *points) {
      add(frame.x, static_cast<double>(point.step), first);
      first = false;
    }
  }
  // Single noisy steps may leave the picture; the smoothed curve and what is checked may not.
  first = true;
  for (const auto* points : {&smooth, &chart.checked}) {
    for (const Point& point : *points) {
      add(frame.y, point.value, first);
      first = false;
    }
  }
  if (frame.x.high <= frame.x.low) frame.x.high = frame.x.low + 1;
  // The axis tells six digits: what differs less is a constant.
  const double room = (frame.y.high - frame.y.low) * 0.06;
  const double size = std::max(std::abs(frame.y.low), std::abs(frame.y.high));
  const double margin = room > 1e-6 * size ? room : size > 0 ? 0.06 * size : 1;
  frame.y.low -= margin;
  frame.y.high += margin;
  return frame;
}

std::string axes(const Chart& chart, const Frame& frame) {
  std::string out;
  const double base = frame.y.from;
  const int rows = static_cast<int>((base - frame.top) / kTickRow);
  for (const double value : nice_ticks(frame.y.low, frame.y.high, std::max(rows, 3))) {
    const double y = frame.y(value);
    out += svg_line(kLeft, y, frame.x.to, y, "grid");
    out += svg_label(kLeft - 10, y + 4.5, fmt::format("{:.6g}", value), SvgAnchor::end);
  }
  const auto ticks = static_cast<int>((frame.x.to - kLeft) / kTickPixels);
  out += svg_axis(frame.x, base, std::max(ticks, 2), "step", true);  // there is no step 2.5
  out += fmt::format(
      "<text transform=\"translate(20 {:.1f}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
      (frame.top + base) / 2,
      svg_text(chart.unit));
  return out;
}

std::string legend(const Chart& chart, const Frame& frame, const std::vector<Point>& smooth) {
  std::string out;
  double x = legend_begin(chart);
  const auto entry = [&](std::string_view mark, const std::string& name, double value) {
    out += fmt::format("<g transform=\"translate({:.0f} {:.0f})\">{}", x, frame.legend, mark);
    out += svg_label(
        36, 4.5, fmt::format("{} {}", name, fmt::format(fmt::runtime(chart.number), value)));
    out += "</g>\n";
    x += kLegend;
  };
  if (!smooth.empty()) {
    entry("<path class=\"curve smooth\" d=\"M0 0H26\"/>", chart.measured_name, smooth.back().value);
  }
  if (!chart.checked.empty()) {
    entry(
        "<path class=\"curve validation\" d=\"M0 0H26\"/><circle class=\"dot\" cx=\"13\" "
        "r=\"3.4\"/>",
        chart.checked_name,
        chart.checked.back().value);
  }
  return out;
}

}  // namespace

std::vector<Point> smoothed(const std::vector<Point>& points, double window) {
  std::vector<Point> out;
  out.reserve(points.size());
  double average = 0;
  for (const Point& point : points) {
    // A tenth of what was seen so far: a wide window would lag the steep start.
    const double width = std::min(window, 1 + static_cast<double>(out.size()) / 10);
    average += (point.value - average) / width;
    out.push_back({point.step, average});
  }
  return out;
}

std::vector<Point> curve_of(const Chart& chart) {
  // Wide enough to calm the noise, short enough to follow the fall.
  const double window = std::clamp(static_cast<double>(chart.measured.size()) / 50, 1.0, 200.0);
  return smoothed(chart.measured, chart.smooth ? window : 1);
}

std::string draw_chart(const Chart& chart) {
  const std::vector<Point> smooth = curve_of(chart);
  const Frame frame = frame_of(chart, smooth);
  std::string out = svg_begin(chart.width, chart.height, kStyle);
  out += svg_label(kLeft, 36, chart.title, SvgAnchor::start, "title");
  out += axes(chart, frame);
  // A nested picture cuts off what leaves the frame.
  out += fmt::format(
      "<svg x=\"{0:.1f}\" y=\"{1:.1f}\" width=\"{2:.1f}\" height=\"{3:.1f}\" "
      "viewBox=\"{0:.1f} {1:.1f} {2:.1f} {3:.1f}\">\n",
      kLeft,
      frame.top,
      frame.x.to - kLeft,
      frame.y.from - frame.top);
  if (chart.smooth) out += path(frame, chart.measured, "train");
  out += path(frame, smooth, "smooth");
  out += path(frame, chart.checked, "validation");
  out += "</svg>\n";
  for (const Point& point : chart.checked) {
    out += fmt::format("<circle class=\"dot\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.4\"/>\n",
                       frame.px(point.step),
                       frame.y(point.value));
  }
  return out + legend(chart, frame, smooth) + "</svg>\n";
}

}  // namespace tessera
