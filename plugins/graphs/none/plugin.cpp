#include "tessera/plugin.hpp"

#include "no_graphs.hpp"

TESSERA_PLUGIN(graph_none, "0.1.0", "No graphs") {
  registrar.add<tessera::GraphPolicy, tessera::NoGraphs>(
      "none", "Captures nothing: every launch is made as the phases run.");
}
