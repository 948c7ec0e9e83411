#include "kernel/train/execution/row_sums.hpp"

#include <algorithm>
#include <utility>

#include "tessera/error.hpp"
#include "tessera/ops.hpp"

namespace tessera {

RowSums::RowSums(const ModelParts& parts, Device& device)
    : device_(device),
      zero_(Tensor::allocate(
          device, device.pool(), device.stream(), {1}, DType::fp64, Category::activations)) {
  const double zero = 0;
  device.write(zero_, &zero);
  const auto& losses = parts.losses();
  const auto main = std::ranges::find_if(losses, [](const auto& loss) { return !loss.auxiliary; });
  term_ = main == losses.end() ? -1 : static_cast<int>(main - losses.begin());
}

void RowSums::rows(Context&, LossTerm term, const Tensor& sums) {
  if (term.index == term_) sums_ = sums;
}

std::vector<double> RowSums::take(Context& cx, i64 rows) {
  const Tensor sums = std::exchange(sums_, {});
  require(sums.defined() && sums.dim(0) == rows, "this model's loss does not score each token");
  const Tensor wide = cx.empty(sums.shape(), DType::fp64);
  ops::run(cx, CopyArgs{sums.arg(), wide.arg()});
  std::vector<double> values(static_cast<std::size_t>(wide.elements()));
  device_.read(wide, values.data());
  return values;
}

}  // namespace tessera
