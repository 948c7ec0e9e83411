#pragma once
#include <vector>

#include "kernel/train/survey.hpp"
#include "tessera/comm.hpp"

namespace tessera {

/// Gradients of parameters that several pipeline ranks hold (tied embeddings). Every holder gets
/// the sum over all of them, added in the order of their stages, so the copies stay bit-equal.
class SharedGradients {
 public:
  explicit SharedGradients(ProcessGroup& pipeline) : pipeline_(pipeline) {}

  /// `holders`: pipeline ranks in the order of their stages, this one among them. Every rank adds
  /// its parameters in one global order.
  void add(Parameter& parameter, std::vector<int> holders);
  void sum(Context& cx) const;
  /// Throws Error naming the first parameter whose values differ between its holders. Waits.
  void check_equal(Context& cx) const;

 private:
  struct Entry {
    Parameter* parameter;
    std::vector<int> holders;
  };
  std::vector<Tensor> gather(Context& cx, const Entry& entry, const Tensor& own) const;
  ProcessGroup& pipeline_;
  std::vector<Entry> entries_;
};

}  // namespace tessera
