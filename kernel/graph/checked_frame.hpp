#pragma once
#include <string>
#include <vector>

#include "kernel/graph/graph_slots.hpp"

namespace tessera {

/// A graph slot whose replays are compared, bit by bit, with the same phases run as they are on the
/// same inputs. Whatever a phase keeps on the host is frozen in its graph and moves on outside, so
/// a difference names such a phase. The host waits for each comparison; losses, metrics, buffers
/// and integers that are read back are those of the replay alone.
class CheckedFrame final : public PhaseFrame {
 public:
  /// The slots keep the results of each phase (CapturedPhases::keep_boundaries). `names`: of bundle
  /// slots. Both outlive it.
  CheckedFrame(GraphSlots& slots, int slot, const std::vector<std::string>& names)
      : slots_(slots), slot_(slot), names_(names) {}

  void forward(Context& cx, Bundle& bundle) override;
  void arrive(Context& cx, SlotGradients& gradients) override {
    slots_.frame(slot_).arrive(cx, gradients);
  }
  void backward(Context& cx, Half half, SlotGradients& gradients) override;
  void release(Context& cx) override { slots_.frame(slot_).release(cx); }

 private:
  Bundle inputs() const;
  Context as_it_runs(const Context& cx, StepSink& unread) const;
  void compare_backward(Context& cx, const std::vector<Tensor>& sums);
  [[noreturn]] void differs(const std::string& what) const;

  GraphSlots& slots_;
  int slot_;
  const std::vector<std::string>& names_;
  Bundle found_{0, 0};           // by forward
  std::vector<Tensor> buffers_;  // that the phases write, as forward found them
};

}  // namespace tessera
