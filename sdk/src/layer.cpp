#include "tessera/layer.hpp"

namespace tessera {

Bundle::Bundle(int tensors, int host_vectors)
    : tensors_(static_cast<std::size_t>(tensors)), host_(static_cast<std::size_t>(host_vectors)) {}

}  // namespace tessera
