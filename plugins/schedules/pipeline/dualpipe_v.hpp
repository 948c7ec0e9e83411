#pragma once
#include "v_shape.hpp"

namespace tessera {

/// In the steady state a forward of one chunk follows a backward of the other, which does not
/// depend on it: in DualPipe the phases of such a pair interleave, here with `overlap`.
class DualPipeV final : public VShape {
 public:
  using Config = OverlapConfig;
  DualPipeV(const Config& config, ScheduleArguments&) : overlap_(config.overlap) {}

  bool do_overlaps() const override { return overlap_; }

 private:
  void train(int p, int rank, int microbatches, VOrder& order) const override {
    const int m = std::max(microbatches, 2 * p), above = p - rank - 1;
    const auto pair = [&](int forward) {
      order.forward(forward);
      order.backward(1 - forward);
    };
    for (int i = 0; i < 2 * above; ++i) order.forward(0);
    for (int i = 0; i <= rank; ++i) {
      order.forward(0);
      order.forward(1);
    }
    for (int i = 0; i < above; ++i) {
      order.input(1);
      order.weight();
      order.forward(1);
    }
    for (int i = 0; i < m - 2 * p + rank + 1; ++i) {
      pair(0);
      pair(1);
    }
    for (int i = 0; i < above; ++i) {
      order.backward(1);
      pair(1);
    }
    // The second half of the last backwards is split: the weight halves fill the draining.
    for (int i = 0; i < 2 * (rank + 1); ++i) {
      const int chunk = 1 - i % 2;
      i > rank ? order.input(chunk) : order.backward(chunk);
    }
    for (int i = 0; i < above; ++i) {
      order.weight();
      order.input(0);
    }
    while (order.weight()) continue;
  }

  bool overlap_;
};

}  // namespace tessera
