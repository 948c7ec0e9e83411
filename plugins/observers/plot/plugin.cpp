#include "tessera/plugin.hpp"

#include "plot.hpp"
#include "report.hpp"

TESSERA_PLUGIN(plot, "0.2.0", "A run as pictures") {
  registrar.add<tessera::Observer, tessera::Plot>(
      "plot",
      "loss.svg in the run's folder: training and validation losses by step, redrawn as the run "
      "goes on. A resumed run takes its earlier steps from metrics.jsonl (observer metrics).");
  registrar.add<tessera::Observer, tessera::Report>(
      "report",
      "report.html in the run's folder: curves, speed, memory, layout, schedule and configuration "
      "on one page, written anew as the run goes on. Earlier steps are those of metrics.jsonl.");
}
