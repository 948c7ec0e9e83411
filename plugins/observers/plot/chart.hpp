#pragma once
#include <string>
#include <vector>

#include "tessera/types.hpp"

namespace tessera {

struct Point {
  i64 step = 0;
  double value = 0;
};

/// One quantity by step: what training measured at every step, and what was checked now and then.
struct Chart {
  std::string title;
  std::string unit = "loss";  ///< what the vertical axis counts
  std::string measured_name = "training", checked_name = "validation";
  std::string number = "{:.4f}";         ///< how fmt writes the newest values in the legend
  std::vector<Point> measured, checked;  ///< by step, finite
  bool smooth = true;                    ///< false: what is measured has no noise
  double width = 960, height = 540;      ///< pixels
};

/// A self-contained SVG: measured values thin and smoothed, checked ones as dots, axes with round
/// numbers, the last values in the legend.
std::string draw_chart(const Chart& chart);

/// The curve of what was measured: smoothed over a fiftieth of the run where the chart says so. Its
/// last value is the legend's.
std::vector<Point> curve_of(const Chart& chart);

/// Exponential moving average over about `window` points, fewer at the start.
std::vector<Point> smoothed(const std::vector<Point>& points, double window);

}  // namespace tessera
