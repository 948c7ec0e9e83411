#include "tessera/plugin.hpp"

#include "plot.hpp"

TESSERA_PLUGIN(plot, "0.1.0", "Loss curves as a picture") {
  registrar.add<tessera::Observer, tessera::Plot>(
      "plot",
      "loss.svg in the run's folder: training and validation losses by step, redrawn as the run "
      "goes on. A resumed run takes its earlier steps from metrics.jsonl (observer metrics).");
}
