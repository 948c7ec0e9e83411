#pragma once
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "chart.hpp"

namespace tessera {

/// A quantity by step in bounded memory: a mean of each 1, 2, 4, … steps, as the run grows longer.
class History {
 public:
  /// Values that are not finite are left out.
  void add(i64 step, double value) {
    if (!std::isfinite(value)) return;
    last_ = {step, value};
    sum_ += value;
    if (++held_ < stride_) return;
    means_.push_back({step, sum_ / static_cast<double>(stride_)});
    sum_ = 0;
    held_ = 0;
    if (means_.size() < kMost) return;
    for (std::size_t i = 0; i < kMost / 2; ++i) {
      means_[i] = {means_[2 * i + 1].step, (means_[2 * i].value + means_[2 * i + 1].value) / 2};
    }
    means_.resize(kMost / 2);
    stride_ *= 2;
  }

  /// The newest value ends it as it is.
  std::vector<Point> points() const {
    std::vector<Point> out = means_;
    if (held_ > 0) out.push_back(last_);
    return out;
  }
  bool empty() const { return means_.empty() && held_ == 0; }
  double last() const { return last_.value; }

 private:
  static constexpr std::size_t kMost = 4096;
  std::vector<Point> means_;
  Point last_;
  double sum_ = 0;
  i64 held_ = 0, stride_ = 1;
};

inline Chart loss_chart(std::string title, const History& training, const History& validation) {
  Chart chart;
  chart.title = std::move(title);
  chart.measured = training.points();
  chart.checked = validation.points();
  return chart;
}

}  // namespace tessera
