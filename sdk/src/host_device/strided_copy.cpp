#include "sdk/src/shared/strided_copy.hpp"

#include <cstring>

#include "tessera/parallel_for.hpp"

namespace tessera {

namespace {

// Uses all threads where it is large: a checkpoint's copy is a large part of what it delays.
void copy_run(std::byte* to, const std::byte* from, std::size_t bytes) {
  constexpr i64 kPerThread = i64{1} << 20;
  parallel_for(static_cast<i64>(bytes), kPerThread, [=](i64 begin, i64 end) {
    std::memcpy(to + begin, from + begin, static_cast<std::size_t>(end - begin));
  });
}

}  // namespace

void copy_to_dense(const TensorArg& tensor, void* dense) {
  auto* to = static_cast<std::byte*>(dense);
  for_each_run(tensor, [&to](const std::byte* from, std::size_t bytes) {
    copy_run(to, from, bytes);
    to += bytes;
  });
}

void copy_from_dense(const TensorArg& tensor, const void* dense) {
  const auto* from = static_cast<const std::byte*>(dense);
  for_each_run(tensor, [&from](std::byte* to, std::size_t bytes) {
    copy_run(to, from, bytes);
    from += bytes;
  });
}

}  // namespace tessera
