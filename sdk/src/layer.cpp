#include "tessera/layer.hpp"

#include "tessera/error.hpp"

namespace tessera {

Bundle::Bundle(int tensors, int host_vectors)
    : tensors_(static_cast<std::size_t>(tensors)), host_(static_cast<std::size_t>(host_vectors)) {}

void Bundle::fail_slot(int index, std::size_t slots) {
  fail("a bundle with {} slots is asked for slot {}: {}",
       slots,
       index,
       index < 0
           ? "it is a default one; make it in the layer's constructor, with BuildContext::slot"
           : "it was made for another model chunk");
}

}  // namespace tessera
