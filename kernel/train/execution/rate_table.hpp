#pragma once
#include <algorithm>

#include "tessera/device/device.hpp"
#include "tessera/optimizer.hpp"
#include "tessera/tensor.hpp"

namespace tessera {

/// Learning rates on the device, as step_scalars reads them: a ring of a few thousand updates,
/// filled ahead in blocks by asynchronous copies, so that the length of a run costs neither memory
/// nor time.
class RateTable {
 public:
  /// `schedule` outlives it. Rates after update `last` are those of `last`.
  RateTable(const LrSchedule& schedule, i64 last, Device& device);
  /// Goes on after `done` updates. Waits for the device.
  void start(i64 done);
  /// Has the rates of the next two updates. At least `done` are done, at most one more is under
  /// way.
  void cover(i64 done);
  const Tensor& tensor() const { return rates_; }
  /// The rate of one update, which need not be in the table.
  double of(i64 update) const { return schedule_.rate(std::min(update, last_)); }

 private:
  void fill_block();
  const LrSchedule& schedule_;
  i64 last_;
  i64 end_ = 0;  // update up to which the ring is filled
  Device& device_;
  i64 block_;       // updates
  HostBlock host_;  // two blocks, as on the device
  Tensor rates_;    // fp64 [2 × block]
};

}  // namespace tessera
