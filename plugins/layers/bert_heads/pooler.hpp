#pragma once
#include <memory>

#include "head_rows.hpp"

namespace tessera {

/// tanh of a linear layer of the first row of each sample (Devlin et al. 2019, §3.1).
class Pooler {
 public:
  Pooler(const Component<Module>& dense, const HeadKeys& keys, BuildContext& build)
      : dense_(head_linear("pooler", dense, keys.hidden, keys.hidden, keys.init_std, build)) {}
  /// [samples, hidden] of HeadRows::first_of_samples.
  Tensor operator()(Context& cx, const Tensor& first) const;

 private:
  std::shared_ptr<Module> dense_;
};

}  // namespace tessera
