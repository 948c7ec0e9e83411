#include "kernel/model/initialize.hpp"

#include <vector>

#include "kernel/model/host_values.hpp"
#include "tessera/parallel_for.hpp"
#include "tessera/random.hpp"

namespace tessera {

void initialize(Parameter& parameter, u64 seed, Device& device) {
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
  write_values(device, parameter.main, values);
  refresh_compute(parameter, device);
}

void refresh_compute(Parameter& parameter, Device& device) {
  if (parameter.compute.dtype() == parameter.main.dtype()) return;
  write_values(device, parameter.compute, read_values(device, parameter.main));
}

}  // namespace tessera
