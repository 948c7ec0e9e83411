#include "tessera/plugin.hpp"

#include "partial_graphs.hpp"

TESSERA_PLUGIN(graph_partial, "0.1.0", "Graphs of chosen phases") {
  registrar.add<tessera::GraphPolicy, tessera::PartialGraphs>(
      "partial", "Captures runs of neighbouring phases of chosen scopes.");
}
