#include "chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "tessera/svg.hpp"

namespace tessera {
namespace {

constexpr double kWidth = 960, kHeight = 540;
constexpr double kLeft = 76, kRight = 24, kTop = 64, kBottom = 60;
/// More vertices than this add bytes but nothing that a screen shows.
constexpr std::size_t kMostVertices = 1600;

constexpr std::string_view kStyle = R"(<style>
  text { font: 13px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: #57606a }
  .title { font-size: 17px; font-weight: 600; fill: #1f2328 }
  .grid { stroke: #e7eaee; stroke-width: 1 }
  .axis { stroke: #8c959f; stroke-width: 1 }
  .curve { fill: none; stroke-linejoin: round; stroke-linecap: round }
  .train { stroke: #0969da; stroke-width: 1; opacity: .28 }
  .smooth { stroke: #0969da; stroke-width: 2.2 }
  .validation { stroke: #d1570b; stroke-width: 1.4; stroke-dasharray: 5 4 }
  .dot { fill: #fff; stroke: #d1570b; stroke-width: 2 }
</style>
)";

struct Range {
  double low = 0, high = 1;
  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

struct Frame {
  Range x, y;
  double px(double step) const {
    return kLeft + (step - x.low) / (x.high - x.low) * (kWidth - kLeft - kRight);
  }
  double py(double loss) const {
    return kHeight - kBottom - (loss - y.low) / (y.high - y.low) * (kHeight - kTop - kBottom);
  }
};

/// At most about kMostVertices points: of each run of points the lowest and the highest, in order.
std::vector<Point> thinned(const std::vector<Point>& points) {
  if (points.size() <= kMostVertices) return points;
  std::vector<Point> out;
  constexpr std::size_t kRuns = kMostVertices / 2;
  for (std::size_t run = 0; run < kRuns; ++run) {
    const auto begin = points.begin() + static_cast<i64>(points.size() * run / kRuns);
    const auto end = points.begin() + static_cast<i64>(points.size() * (run + 1) / kRuns);
    auto [low, high] = std::minmax_element(
        begin, end, [](const Point& a, const Point& b) { return a.loss < b.loss; });
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
    out += fmt::format("{}{:.1f} {:.1f}",
                       command,
                       frame.px(static_cast<double>(point.step)),
                       frame.py(point.loss));
    command = 'L';
  }
  return out + "\"/>\n";
}

Frame frame_of(const Curves& curves, const std::vector<Point>& smooth) {
  Frame frame;
  const auto all = {&curves.train, &curves.validation};
  bool first = true;
  for (const auto* points : all) {
    for (const Point& point : *points) {
      const auto step = static_cast<double>(point.step);
      if (first) frame.x = {step, step};
      first = false;
      frame.x.add(step);
    }
  }
  // Single noisy steps may leave the picture; the smoothed curve and validation may not.
  first = true;
  for (const auto* points : {&smooth, &curves.validation}) {
    for (const Point& point : *points) {
      if (first) frame.y = {point.loss, point.loss};
      first = false;
      frame.y.add(point.loss);
    }
  }
  if (frame.x.high <= frame.x.low) frame.x.high = frame.x.low + 1;
  const double margin = std::max((frame.y.high - frame.y.low) * 0.06, 1e-3);
  frame.y.low -= margin;
  frame.y.high += margin;
  return frame;
}

std::string axes(const Frame& frame) {
  std::string out;
  for (const double value : nice_ticks(frame.y.low, frame.y.high, 7)) {
    const double y = frame.py(value);
    out += fmt::format(
        "<path class=\"grid\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>\n", kLeft, y, kWidth - kRight);
    out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{:.6g}</text>\n",
                       kLeft - 10,
                       y + 4.5,
                       value);
  }
  const double base = kHeight - kBottom;
  for (const double value : nice_ticks(frame.x.low, frame.x.high, 9)) {
    if (value != std::floor(value)) continue;  // there is no step 2.5
    const double x = frame.px(value);
    out += fmt::format("<path class=\"axis\" d=\"M{:.1f} {:.1f}v5\"/>\n", x, base);
    out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{:.0f}</text>\n",
                       x,
                       base + 21,
                       value);
  }
  out += fmt::format(
      "<path class=\"axis\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>\n", kLeft, base, kWidth - kRight);
  out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">step</text>\n",
                     (kLeft + kWidth - kRight) / 2,
                     kHeight - 16);
  out += fmt::format(
      "<text transform=\"translate(20 {:.1f}) rotate(-90)\" text-anchor=\"middle\">loss</text>\n",
      (kTop + base) / 2);
  return out;
}

std::string legend(const Curves& curves, const std::vector<Point>& smooth) {
  std::string out;
  double y = kTop + 18;
  const double x = kWidth - kRight - 196;
  const auto entry = [&](std::string_view mark, std::string_view name, double value) {
    out += fmt::format("<g transform=\"translate({:.0f} {:.0f})\">{}", x, y, mark);
    out += fmt::format("<text x=\"36\" y=\"4.5\">{} {:.4f}</text></g>\n", name, value);
    y += 22;
  };
  if (!smooth.empty()) {
    entry("<path class=\"curve smooth\" d=\"M0 0H26\"/>", "training", smooth.back().loss);
  }
  if (!curves.validation.empty()) {
    entry(
        "<path class=\"curve validation\" d=\"M0 0H26\"/><circle class=\"dot\" cx=\"13\" "
        "r=\"3.4\"/>",
        "validation",
        curves.validation.back().loss);
  }
  return out;
}

}  // namespace

std::vector<double> nice_ticks(double low, double high, int count) {
  const double rough = (high - low) / count;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {5.0, 2.0, 1.0}) {
    if (factor * power >= rough * (1 - 1e-9)) step = factor * power;
  }
  std::vector<double> ticks;
  const auto last = static_cast<i64>(std::floor(high / step + 1e-9));
  for (auto i = static_cast<i64>(std::ceil(low / step - 1e-9)); i <= last; ++i) {
    ticks.push_back(static_cast<double>(i) * step);
  }
  return ticks;
}

std::vector<Point> smoothed(const std::vector<Point>& points, double window) {
  std::vector<Point> out;
  out.reserve(points.size());
  double average = 0;
  for (const Point& point : points) {
    // A tenth of what was seen so far: a wide window would lag the steep start.
    const double width = std::min(window, 1 + static_cast<double>(out.size()) / 10);
    average += (point.loss - average) / width;
    out.push_back({point.step, average});
  }
  return out;
}

std::string draw_chart(const Curves& curves) {
  // Wide enough to calm the noise, short enough to follow the fall: a fiftieth of the run.
  const double window = std::clamp(static_cast<double>(curves.train.size()) / 50, 1.0, 200.0);
  const std::vector<Point> smooth = smoothed(curves.train, window);
  const Frame frame = frame_of(curves, smooth);
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
      "height=\"{1:.0f}\">\n{2}<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
      kWidth,
      kHeight,
      kStyle);
  out += fmt::format(
      "<text class=\"title\" x=\"{:.0f}\" y=\"36\">{}</text>\n", kLeft, svg_text(curves.title));
  out += axes(frame);
  out += fmt::format(
      "<clipPath id=\"plot\"><rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/>"
      "</clipPath>\n<g clip-path=\"url(#plot)\">\n",
      kLeft,
      kTop,
      kWidth - kLeft - kRight,
      kHeight - kTop - kBottom);
  out += path(frame, curves.train, "train");
  out += path(frame, smooth, "smooth");
  out += path(frame, curves.validation, "validation");
  out += "</g>\n";
  for (const Point& point : curves.validation) {
    out += fmt::format("<circle class=\"dot\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.4\"/>\n",
                       frame.px(static_cast<double>(point.step)),
                       frame.py(point.loss));
  }
  return out + legend(curves, smooth) + "</svg>\n";
}

}  // namespace tessera
