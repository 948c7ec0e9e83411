#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/api.hpp"
#include "tessera/types.hpp"

namespace tessera {

// Parts of a picture as text, to be written one after the other: what is later is on top. Lengths
// are pixels from the upper left corner.
//
//     std::string svg = svg_begin(200, 60);
//     svg += svg_box(10, 10, 180, 20, "#0969da", "what a pointer is told");
//     svg += svg_label(10, 50, "a < b");
//     svg += "</svg>\n";

/// Text as it stands between the tags of an SVG or HTML file, or in an attribute's double quotes:
/// &, <, > and " escaped, control characters gone but for line feeds and tabs, and U+FFFD for bytes
/// that are no UTF-8.
TESSERA_API std::string svg_text(std::string_view text);

/// The opening tag, the look that all pictures share, and a white ground. `style` is further CSS.
/// Classes of texts: "title"; of lines: "grid", "axis".
TESSERA_API std::string svg_begin(double width, double height, std::string_view style = "");

enum class SvgAnchor : u8 { start, middle, end };

/// A line of text; `y` is its base line.
TESSERA_API std::string svg_label(double x,
                                  double y,
                                  std::string_view text,
                                  SvgAnchor anchor = SvgAnchor::start,
                                  std::string_view css_class = "");

/// A filled rectangle; `title` is shown to who points at it.
TESSERA_API std::string svg_box(double x,
                                double y,
                                double width,
                                double height,
                                std::string_view fill,
                                std::string_view title = "");

/// A straight line of a class.
TESSERA_API std::string svg_line(
    double x, double y, double to_x, double to_y, std::string_view css_class);

/// Values and the pixels that they are drawn at, along one direction.
struct SvgScale {
  double low = 0, high = 1;  ///< values
  double from = 0, to = 1;   ///< pixels
  double operator()(double value) const {
    return from + (value - low) / (high - low) * (to - from);
  }
};

/// A horizontal axis at `y` with about `count` ticks at round numbers, and what they count.
TESSERA_API std::string svg_axis(
    const SvgScale& x, double y, int count, std::string_view name, bool whole = false);

/// Words for colours, in rows that end at `right`. Its rows are kSvgLegendRow high.
struct SvgKey {
  std::string colour, text;
};
inline constexpr double kSvgLegendRow = 20;
TESSERA_API std::string svg_legend(double x,
                                   double y,
                                   double right,
                                   const std::vector<SvgKey>& keys);
/// How many rows svg_legend() needs.
TESSERA_API int svg_legend_rows(double x, double right, const std::vector<SvgKey>& keys);

/// Round numbers within [low, high]: multiples of 1, 2 or 5 times a power of ten, about `count`.
TESSERA_API std::vector<double> nice_ticks(double low, double high, int count);

}  // namespace tessera
