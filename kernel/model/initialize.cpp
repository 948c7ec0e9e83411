#include "kernel/model/initialize.hpp"

#include <algorithm>
#include <vector>

#include "kernel/model/host_values.hpp"
#include "tessera/operation.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/parallel_for.hpp"
#include "tessera/random.hpp"

namespace tessera {

namespace {

void copy(const Tensor& from, const Tensor& to, Device& device) {
  if (from.elements() == 0) return;
  Operation<CopyArgs>(device).launch(device.stream(), device.pool(), {from.arg(), to.arg()});
}

Tensor part_of(const Tensor& whole, const FlatRange& range) {
  return whole.view({whole.elements()}).slice(0, range.begin, range.length);
}

// Writes in pieces where a rank's main values are a part of the parameter: a whole one would be
// more than a step takes, and more than plans say. Every rank rounds values to main's dtype first,
// so that compute values are the same on all.
void write_initial(Parameter& parameter,
                   const OwnedValues& main,
                   const std::vector<double>& values,
                   Device& device) {
  if (parameter.main.defined()) {
    write_values(device, parameter.main, values);
    return refresh_compute(parameter, main, device);
  }
  constexpr i64 kPiece = 1 << 16;  // elements
  const i64 elements = parameter.local.elements();
  const Tensor staging = Tensor::allocate(device,
                                          device.pool(),
                                          device.stream(),
                                          {std::min(elements, kPiece)},
                                          main.values.dtype(),
                                          Category::workspace);
  for (i64 begin = 0; begin < elements; begin += kPiece) {
    const i64 length = std::min(elements - begin, kPiece);
    const Tensor piece = staging.slice(0, 0, length);
    write_values(device, piece, {values.begin() + begin, values.begin() + begin + length});
    copy(piece, part_of(parameter.compute, {begin, length}), device);
    const i64 first = std::max(begin, main.range.begin);
    const i64 last = std::min(begin + length, main.range.begin + main.range.length);
    if (first >= last) continue;
    copy(piece.slice(0, first - begin, last - first),
         main.values.slice(0, first - main.range.begin, last - first),
         device);
  }
}

}  // namespace

std::vector<double> initial_values(const Buffer& buffer) {
  std::vector<double> values(static_cast<std::size_t>(buffer.local.elements()), buffer.initial);
  if (!buffer.constant()) return values;
  parallel_for(buffer.local.elements(), 1024, [&](i64 begin, i64 end) {
    for (i64 i = begin; i < end; ++i) values[static_cast<std::size_t>(i)] = buffer.values(i);
  });
  return values;
}

void initialize(Parameter& parameter, u64 seed, Device& device) {
  const i64 elements = parameter.local.elements();
  initialize(parameter, {{0, elements}, parameter.main.view({elements})}, seed, device);
}

void initialize(Parameter& parameter, const OwnedValues& main, u64 seed, Device& device) {
  std::vector<double> values(static_cast<std::size_t>(parameter.local.elements()), 0.0);
  const u64 key = random_key(seed, parameter.name);
  for (const ElementRun& run : parameter.layout.runs()) {
    double* out = values.data() + run.local;
    if (parameter.init.kind == Init::constant) {
      std::fill_n(out, run.length, parameter.init.value);
      continue;
    }
    parallel_for(run.length, 1024, [&](i64 begin, i64 end) {
      for (i64 i = begin; i < end; ++i) {
        out[i] = parameter.init.stddev * random_normal(key, static_cast<u64>(run.logical + i));
      }
    });
  }
  write_initial(parameter, main, values, device);
}

void refresh_compute(Parameter& parameter, const OwnedValues& main, Device& device) {
  if (parameter.compute.dtype() == main.values.dtype()) return;
  copy(main.values, part_of(parameter.compute, main.range), device);
}

}  // namespace tessera
