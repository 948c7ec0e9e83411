#include "tessera/plugin.hpp"

#include "sequential.hpp"

TESSERA_PLUGIN(sequential, "0.1.0", "Schedule without a pipeline") {
  registrar.add<tessera::PipelineSchedule, tessera::Sequential>(
      "sequential",
      "Microbatch by microbatch, forward then backward; needs parallel.pipeline = 1.");
}
