#include "tessera/plugin.hpp"

#include "distributed.hpp"
#include "replicated.hpp"

TESSERA_PLUGIN(data_parallel, "0.1.0", "Optimizer state on every replica, or cut among them") {
  registrar.add<tessera::Optimizer, tessera::Replicated>(
      "replicated",
      "Every rank keeps the whole optimizer state of its parameters; replicas update alike.");
  registrar.add<tessera::Optimizer, tessera::Distributed>(
      "distributed",
      "Each data-parallel replica keeps the state of its shard of the parameters and updates that "
      "(ZeRO-1, Rajbhandari et al. 2020); the same bits as \"replicated\".");
}
