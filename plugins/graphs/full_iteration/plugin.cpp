#include "tessera/plugin.hpp"

#include "full_iteration.hpp"

TESSERA_PLUGIN(graph_full_iteration, "0.1.0", "One graph of a whole step") {
  registrar.add<tessera::GraphPolicy, tessera::FullIteration>(
      "full_iteration",
      "Captures a whole training step: all microbatches, messages, sums of gradients, the update.");
}
