#include "tessera/plugin.hpp"

#include "trace.hpp"

TESSERA_PLUGIN(trace, "0.1.0", "What every rank did in some steps, as a trace") {
  registrar.add<tessera::Observer, tessera::TraceWriter>(
      "trace",
      "trace.json in the run's folder, for Perfetto (ui.perfetto.dev) and chrome://tracing: what "
      "each rank did in the steps asked for, action by action, with messages between ranks, rows "
      "and integers under way, replays of graphs, and memory by category as each action leaves it. "
      "It is written once the last of these steps is done. Where whole steps are replayed, the "
      "first one shows the actions.");
}
