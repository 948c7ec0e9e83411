#include "nccl.hpp"

TESSERA_PLUGIN(nccl, "0.1.0", "communicator of ranks on GPUs, by NCCL") {
  tessera::nccl::add(registrar);
}
