#include "kernel/train/setup/model_flops.hpp"

#include <utility>

#include "kernel/dry/dry_rank.hpp"
#include "kernel/train/setup/outline.hpp"
#include "tessera/base/parameter_memory.hpp"
#include "tessera/device/core_ops.hpp"
#include "tessera/error.hpp"

namespace tessera {

double model_flops_per_token(const RunSetup& setup, const std::shared_ptr<Device>& stands_for) {
  double flops = 0;
  DryEvents events;
  events.launched = [&](const Kernel& kernel, const void* args) {
    flops += kernel.effort(args).flops;
  };
  const Rank alone = dry_rank({.world = 1}, 0, stands_for, std::move(events));
  BuildSettings settings = build_settings_of(setup, *alone.mesh, alone.device.get());
  settings.batch = {1, setup.sequence_length};
  settings.sequence_parallel = false;
  Outline outline(*setup.model, settings);
  ParameterMemory(outline.parts().parameter_list(), setup.bucket_rules(*alone.mesh))
      .allocate_values(*alone.device, settings.main, settings.compute);
  outline.parts().allocate_buffers(*alone.device);
  outline.forward(alone.context(), setup.fields, settings.batch);
  constexpr double kPasses = 3;  // forward, gradients of inputs, gradients of weights
  return kPasses * flops / static_cast<double>(setup.sequence_length);
}

double peak_flops(const RunSetup& setup, const Device& device) {
  if (!setup.hardware) return 0;
  const Hardware& hardware = *setup.hardware;
  const DType compute = parse_dtype(setup.config->precision.compute);
  const auto refuse = [&](std::string_view why) {
    fail_config("{}: [run] hardware: {}", setup.maker->origin("run", "hardware"), why);
  };
  if (compute == DType::fp32 && !hardware.fp32_timed_as.empty()) {
    refuse(
        fmt::format("{}: fp32_timed_as = \"{}\" is for predictions of another run, and this one "
                    "computes in fp32: leave the key out there, or name the table in `tessera "
                    "plan --hardware` only",
                    hardware.table,
                    hardware.fp32_timed_as));
  }
  try {
    return hardware.peak_rate(compute, rounds_to_tf32(device));
  } catch (const ConfigError& error) {
    refuse(error.what());
  }
  return 0;
}

bool rounds_to_tf32(const Device& device) {
  const Kernel* products = device.find(MatmulArgs::kName);
  return products != nullptr && products->tf32;
}

}  // namespace tessera
