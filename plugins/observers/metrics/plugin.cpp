#include "tessera/plugin.hpp"

#include "metrics.hpp"

TESSERA_PLUGIN(metrics, "0.1.0", "Numbers of a run as JSON lines") {
  registrar.add<tessera::Observer, tessera::Metrics>(
      "metrics",
      "metrics.jsonl in the run's folder: one JSON object a step (loss, gradient norm, learning "
      "rate, speed, metrics; val_loss where it was validated). A resumed run cuts it back to its "
      "step first. A new run keeps an earlier one as metrics.1.jsonl, and so does a resumed run "
      "with another configuration where later steps are in it.");
}
