#include "tessera/io/svg.hpp"

#include <fmt/format.h>

#include <cmath>

#include "tessera/io/utf8.hpp"

namespace tessera {

namespace {

constexpr std::string_view kStyle =
    R"(text { font: 13px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: #57606a }
  .title { font-size: 17px; font-weight: 600; fill: #1f2328 }
  .grid { stroke: #e7eaee; stroke-width: 1 }
  .axis { stroke: #8c959f; stroke-width: 1 })";

constexpr double kSwatch = 12, kCharacter = 7.2;

double width_of(const SvgKey& key) {
  return kSwatch + 20 + kCharacter * static_cast<double>(key.text.size());
}

// Calls place(key, x, row) for each, from left to right and row to row.
template <class Place>
int lay_out(double x, double right, const std::vector<SvgKey>& keys, const Place& place) {
  double at = x;
  int row = 0;
  for (const SvgKey& key : keys) {
    if (at > x && at + width_of(key) > right) at = x, ++row;
    place(key, at, row);
    at += width_of(key);
  }
  return keys.empty() ? 0 : row + 1;
}

}  // namespace

std::string svg_text(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (static_cast<unsigned char>(c) >= 0x80) {
      const std::size_t bytes = character_length(text.substr(at));
      out += bytes == 0 ? "\uFFFD" : text.substr(at, bytes);
      at += bytes == 0 ? 0 : bytes - 1;
    } else if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else if (static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t') {
      out += c;
    }
  }
  return out;
}

std::string svg_begin(double width, double height, std::string_view style) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
      "height=\"{1:.0f}\">\n<style>\n  {2}\n{3}</style>\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
      width,
      height,
      kStyle,
      style);
}

std::string svg_label(
    double x, double y, std::string_view text, SvgAnchor anchor, std::string_view css_class) {
  constexpr std::string_view kAnchors[] = {"", " text-anchor=\"middle\"", " text-anchor=\"end\""};
  return fmt::format("<text{} x=\"{:.1f}\" y=\"{:.1f}\"{}>{}</text>\n",
                     css_class.empty() ? "" : fmt::format(" class=\"{}\"", css_class),
                     x,
                     y,
                     kAnchors[static_cast<std::size_t>(anchor)],
                     svg_text(text));
}

std::string svg_box(double x,
                    double y,
                    double width,
                    double height,
                    std::string_view fill,
                    std::string_view title) {
  const std::string box = fmt::format(
      "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" fill=\"{}\"/>",
      x,
      y,
      width,
      height,
      fill);
  if (title.empty()) return box + "\n";
  return fmt::format("<g><title>{}</title>{}</g>\n", svg_text(title), box);
}

std::string svg_line(double x, double y, double to_x, double to_y, std::string_view css_class) {
  return fmt::format(
      "<path class=\"{}\" d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\"/>\n", css_class, x, y, to_x, to_y);
}

std::string svg_axis(const SvgScale& x, double y, int count, std::string_view name, bool whole) {
  std::string out = svg_line(x.from, y, x.to, y, "axis");
  for (const double value : nice_ticks(x.low, x.high, count)) {
    if (whole && value != std::floor(value)) continue;
    out += svg_line(x(value), y, x(value), y + 5, "axis");
    out += svg_label(x(value), y + 21, fmt::format("{:.12g}", value), SvgAnchor::middle);
  }
  return out + svg_label((x.from + x.to) / 2, y + 44, name, SvgAnchor::middle);
}

std::string svg_legend(double x, double y, double right, const std::vector<SvgKey>& keys) {
  std::string out;
  lay_out(x, right, keys, [&](const SvgKey& key, double at, int row) {
    const double top = y + kSvgLegendRow * row;
    out += svg_box(at, top, kSwatch, kSwatch, key.colour);
    out += svg_label(at + kSwatch + 5, top + kSwatch - 1.5, key.text);
  });
  return out;
}

int svg_legend_rows(double x, double right, const std::vector<SvgKey>& keys) {
  return lay_out(x, right, keys, [](const SvgKey&, double, int) {});
}

std::vector<double> nice_ticks(double low, double high, int count) {
  std::vector<double> ticks;
  if (!(high > low)) return ticks;
  const double rough = (high - low) / count;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {5.0, 2.0, 1.0}) {
    if (factor * power >= rough * (1 - 1e-9)) step = factor * power;
  }
  const auto last = static_cast<i64>(std::floor(high / step + 1e-9));
  for (auto i = static_cast<i64>(std::ceil(low / step - 1e-9)); i <= last; ++i) {
    ticks.push_back(static_cast<double>(i) * step);
  }
  return ticks;
}

}  // namespace tessera
