#pragma once
#include <string>
#include <vector>

#include "tessera/types.hpp"

namespace tessera {

struct Point {
  i64 step = 0;
  double loss = 0;
};

/// What the picture shows.
struct Curves {
  std::string title;
  std::vector<Point> train, validation;  ///< by step, finite
};

/// A self-contained SVG: training losses thin and smoothed, validation losses as dots, axes with
/// round numbers, the last values in the legend.
std::string draw_chart(const Curves& curves);

/// Round numbers within [low, high]: multiples of 1, 2 or 5 times a power of ten, about `count`.
std::vector<double> nice_ticks(double low, double high, int count);

/// Exponential moving average over about `window` points, fewer at the start.
std::vector<Point> smoothed(const std::vector<Point>& points, double window);

}  // namespace tessera
