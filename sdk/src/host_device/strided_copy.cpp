#include "tessera/strided_copy.hpp"

#include <cstring>

namespace tessera {

void copy_to_dense(const TensorArg& tensor, void* dense) {
  auto* to = static_cast<std::byte*>(dense);
  for_each_run(tensor, [&to](const std::byte* from, std::size_t bytes) {
    std::memcpy(to, from, bytes);
    to += bytes;
  });
}

void copy_from_dense(const TensorArg& tensor, const void* dense) {
  const auto* from = static_cast<const std::byte*>(dense);
  for_each_run(tensor, [&from](std::byte* to, std::size_t bytes) {
    std::memcpy(to, from, bytes);
    from += bytes;
  });
}

}  // namespace tessera
