#pragma once
#include <unordered_map>
#include <unordered_set>

#include "tessera/operation.hpp"

namespace tessera {

/// Remembers at which dtypes, shapes and strides each kernel was launched; addresses and constants
/// do not count. Where shapes keep changing, the latest are kept, at least kKept per kernel.
class TESSERA_API LaunchSignatures {
 public:
  static constexpr std::size_t kKept = 4096;

  bool seen(const Kernel& kernel, const void* args) const;
  void add(const Kernel& kernel, const void* args);

 private:
  struct Seen {
    std::unordered_set<u64> current, before;
  };
  std::unordered_map<const Kernel*, Seen> kernels_;
};

/// "fp32 [2, 3], absent, fp32 [2, 4]": the tensors of a launch, for errors.
TESSERA_API std::string tensors_text(const Kernel& kernel, const void* args);

}  // namespace tessera
