#include "kernel/model/logical.hpp"

#include <algorithm>
#include <array>

namespace tessera {

std::vector<ElementRun> element_runs(const Parameter& parameter, const Mesh& mesh) {
  const int rank = parameter.logical.rank();
  const Shape local = dense_strides(parameter.local), logical = dense_strides(parameter.logical);
  std::vector<ElementRun> runs{{0, 0, 1}};
  for (int dim = 0; dim < rank; ++dim) {
    const std::vector<Slice> slices = parameter.slices(dim, mesh);
    const bool last = dim == rank - 1;
    std::vector<ElementRun> deeper;
    for (const ElementRun& run : runs) {
      for (const Slice& slice : slices) {
        const i64 steps = last ? 1 : slice.length;
        for (i64 i = 0; i < steps; ++i) {
          deeper.push_back({run.local + (slice.local + i) * local[dim],
                            run.logical + (slice.logical + i) * logical[dim],
                            last ? slice.length : 1});
        }
      }
    }
    runs = std::move(deeper);
  }
  std::vector<ElementRun> joined;
  for (const ElementRun& run : runs) {
    if (!joined.empty() && joined.back().local + joined.back().length == run.local &&
        joined.back().logical + joined.back().length == run.logical) {
      joined.back().length += run.length;
    } else {
      joined.push_back(run);
    }
  }
  return joined;
}

bool represents(const Parameter& parameter, const Mesh& mesh) {
  if (!parameter.counted) return false;
  constexpr std::array kDense = {Axis::tensor, Axis::context, Axis::data};
  return std::ranges::all_of(kDense, [&](Axis axis) {
    const bool cut =
        std::ranges::any_of(parameter.split, [&](const Split& s) { return s.axis == axis; });
    return cut || mesh.first(axis);
  });
}

}  // namespace tessera
