#pragma once
#include <utility>
#include <vector>

#include "tessera/comm.hpp"
#include "tessera/context.hpp"
#include "tessera/parameter.hpp"

namespace tessera {

/// Gradients of parameters that several pipeline ranks hold (tied embeddings). Every holder gets
/// the sum over all of them, added in the order of their stages, so the copies stay bit-equal.
class SharedGradients {
 public:
  /// Parameters with their holders: pipeline ranks in the order of their stages, this one among
  /// them. In one global order on every rank.
  using Holders = std::vector<std::pair<Parameter*, std::vector<int>>>;
  SharedGradients(const Holders& shared, ProcessGroup& pipeline);
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
