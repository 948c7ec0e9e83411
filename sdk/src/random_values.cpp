#include "tessera/device/random_values.hpp"

#include <algorithm>
#include <vector>

#include "tessera/device/device.hpp"
#include "tessera/random.hpp"
#include "tessera/with_type.hpp"

namespace tessera {

void write_random(const Tensor& tensor, u64 seed) {
  require(tensor.dense(), "random values for {}, which is not dense", tensor);
  constexpr i64 kBlock = 65521;
  const i64 all = tensor.elements();
  const Tensor row = tensor.view({all});
  with_floating("write_random", tensor.dtype(), [&]<class T>(T) {
    std::vector<T> block(static_cast<std::size_t>(std::min(all, kBlock)));
    for (std::size_t i = 0; i < block.size(); ++i) {
      block[i] = static_cast<T>(2 * random_uniform(seed, i) - 1);
    }
    for (i64 begin = 0; begin < all; begin += kBlock) {
      tensor.device().write(row.slice(0, begin, std::min(kBlock, all - begin)), block.data());
    }
  });
}

}  // namespace tessera
