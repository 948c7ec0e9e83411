#pragma once
#include <initializer_list>
#include <string_view>
#include <vector>

#include "tessera/context.hpp"
#include "tessera/process_group.hpp"

namespace tessera {

/// Values of steps on the device, a row for each step, until the host reads them.
class LossHistory {
 public:
  /// Has room for `steps` rows. Values are reduced over `groups`, in this order.
  LossHistory(Device& device, i64 steps, i64 sums, i64 peaks, std::vector<ProcessGroup*> groups);

  /// Appends a row. `sums`: tensors that lie one after the other in it. Undefined tensors are left
  /// out: `peaks` where there are none, `scalars` of a validation.
  void append(Context& cx,
              std::initializer_list<Tensor> sums,
              const Tensor& peaks,
              const Tensor& scalars);
  bool full() const { return rows_ == sums_.dim(0); }

  struct Rows {
    i64 count = 0;
    std::vector<double> sums, peaks, scalars;  ///< row after row
  };
  /// Sums the sums over the groups, takes the largest of the peaks, waits and empties the history.
  Rows take(Context& cx);
  /// The same of a tensor that is not in the history; does not wait.
  void reduce(Context& cx, const Tensor& values, ReduceOp op, std::string_view name) const;

 private:
  Tensor sums_, peaks_, scalars_;  // fp64 [steps, …]
  std::vector<ProcessGroup*> groups_;
  i64 rows_ = 0;
};

}  // namespace tessera
