#include "kernel/train/setup/model_flops.hpp"

#include <utility>

#include "kernel/train/setup/rank.hpp"
#include "kernel/train/setup/survey.hpp"
#include "tessera/parameter_memory.hpp"

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
  Survey survey(*setup.model, settings);
  ParameterMemory(survey.parts().parameter_list(), setup.bucket_rules(*alone.mesh))
      .allocate_values(*alone.device, settings.main, settings.compute);
  survey.parts().allocate_buffers(*alone.device);
  survey.forward(alone.context(), setup.fields, settings.batch);
  constexpr double kPasses = 3;  // forward, gradients of inputs, gradients of weights
  return kPasses * flops / static_cast<double>(setup.sequence_length);
}

}  // namespace tessera
