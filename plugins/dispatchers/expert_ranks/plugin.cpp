#include "tessera/plugin.hpp"

#include "allgather.hpp"
#include "alltoall.hpp"

TESSERA_PLUGIN(dispatchers, "0.1.0", "Rows to the ranks of their experts and back") {
  registrar.add<tessera::TokenDispatcher, tessera::AllGatherDispatcher>(
      "allgather", "every rank gets all rows and computes those of its experts");
  registrar.add<tessera::TokenDispatcher, tessera::AllToAllDispatcher>(
      "alltoall", "every row goes to the ranks of its experts");
}
