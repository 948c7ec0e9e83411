#pragma once
#include "v_shape.hpp"

namespace tessera {

/// Qi et al. 2023 §6, Controllable Memory (2024) §3. With halves as long as a forward nobody waits
/// between the filling and the draining of the V.
class Zbv final : public VShape {
 public:
  using Config = NoConfig;
  Zbv(const Config&, ScheduleArguments&) {}

 private:
  void train(int p, int rank, int microbatches, VOrder& order) const override {
    const int m = std::max(microbatches, 2 * p - 1);
    const auto whole = [&](int chunk) {
      order.input(chunk);
      order.weight(chunk);
    };
    for (int i = 0; i < 2 * (p - rank) - 1; ++i) order.forward(0);
    for (int i = 0; i < rank; ++i) {
      order.forward(1);
      order.forward(0);
    }
    for (int i = 0; i < p - rank; ++i) {
      order.forward(1);
      whole(1);
    }
    while (order.forwards(1) < m) {
      if (order.forwards(0) < m) order.forward(0);
      whole(0);
      order.forward(1);
      whole(1);
    }
    for (int i = 0; i < rank; ++i) {
      order.input(0);
      order.input(1);
    }
    for (int i = 0; i < p - rank; ++i) whole(0);
    while (order.weight(1)) continue;
    while (order.weight(0)) continue;
  }
};

}  // namespace tessera
