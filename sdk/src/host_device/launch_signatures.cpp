#include "tessera/device/launch_signatures.hpp"
#include "tessera/base/hash.hpp"

#include <fmt/format.h>

#include <span>
#include <utility>

#include "tessera/error.hpp"

namespace tessera {
namespace {

std::span<const TensorArg> tensors(const Kernel& kernel, const void* args) {
  return {static_cast<const TensorArg*>(args), static_cast<std::size_t>(kernel.tensors)};
}

u64 signature(const Kernel& kernel, const void* args) {
  u64 hash = 0;
  for (const TensorArg& tensor : tensors(kernel, args)) {
    i64 words[1 + 2 * kMaxRank] = {tensor ? tensor.rank * 256 + static_cast<int>(tensor.dtype)
                                          : -1};
    std::size_t count = 1;
    for (int i = 0; tensor && i < tensor.rank; ++i) {
      words[count++] = tensor.shape[i];
      words[count++] = tensor.strides[i];
    }
    hash = hash64(std::as_bytes(std::span(words, count)), hash);
  }
  return hash;
}

}  // namespace

bool LaunchSignatures::seen(const Kernel& kernel, const void* args) const {
  const auto found = kernels_.find(&kernel);
  if (found == kernels_.end()) return false;
  const u64 value = signature(kernel, args);
  return found->second.current.contains(value) || found->second.before.contains(value);
}

void LaunchSignatures::add(const Kernel& kernel, const void* args) {
  Seen& seen = kernels_[&kernel];
  const bool added = seen.current.insert(signature(kernel, args)).second;
  if (added && seen.current.size() > kKept) {
    seen.before = std::exchange(seen.current, {});
  }
}

std::string tensors_text(const Kernel& kernel, const void* args) {
  std::string text;
  for (const TensorArg& tensor : tensors(kernel, args)) {
    if (!text.empty()) text += ", ";
    if (!tensor) {
      text += "absent";
      continue;
    }
    text += fmt::format("{} [{}]",
                        dtype_name(tensor.dtype),
                        fmt::join(tensor.shape, tensor.shape + tensor.rank, ", "));
  }
  return text;
}

}  // namespace tessera
