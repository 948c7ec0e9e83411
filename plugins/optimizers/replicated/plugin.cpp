#include "tessera/plugin.hpp"

#include "replicated.hpp"

TESSERA_PLUGIN(replicated, "0.1.0", "Optimizer state on every rank") {
  registrar.add<tessera::Optimizer, tessera::Replicated>(
      "replicated",
      "Every rank keeps the whole optimizer state of its parameters; replicas update alike.");
}
