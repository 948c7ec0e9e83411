#include "kernel/model/initialize.hpp"

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

// Every rank rounds them to main's dtype first, so that compute values are the same on all.
void write_initial(Parameter& parameter,
                   const MainPart& main,
                   const std::vector<double>& values,
                   Device& device) {
  if (parameter.main.defined()) {
    write_values(device, parameter.main, values);
    return refresh_compute(parameter, main, device);
  }
  const Tensor whole = Tensor::allocate(device,
                                        device.pool(),
                                        device.stream(),
                                        parameter.local,
                                        main.values.dtype(),
                                        Category::workspace);
  write_values(device, whole, values);
  copy(part_of(whole, main.range), main.values, device);
  copy(whole, parameter.compute, device);
}

}  // namespace

void initialize(Parameter& parameter, u64 seed, Device& device) {
  const i64 elements = parameter.local.elements();
  initialize(parameter, {{0, elements}, parameter.main.view({elements})}, seed, device);
}

void initialize(Parameter& parameter, const MainPart& main, u64 seed, Device& device) {
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

void refresh_compute(Parameter& parameter, const MainPart& main, Device& device) {
  if (parameter.compute.dtype() == main.values.dtype()) return;
  copy(main.values, part_of(parameter.compute, main.range), device);
}

}  // namespace tessera
