#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "kernel/model/data_inputs.hpp"

namespace tessera {

/// What the layers of a rank say of values that they read: what is below what (BuildContext::bound)
/// and how many rows of a mask a loss has room for (LossSpec::most). Looked at in each sample,
/// since kernels give zeros for rows that a table does not have.
class SampleCheck {
 public:
  SampleCheck() = default;
  /// `length`: positions of a sample. Throws ConfigError where positions are its places, which
  /// `from` gives, and a layer knows fewer.
  SampleCheck(const ModelParts& parts, const DataInputs& from, i64 length);

  /// Throws Error for a sample that is not as they say. `whole`: what it has of each source.
  void operator()(SampleSet set, i64 ordinal, std::span<std::byte* const> whole) const;

 private:
  struct Source {
    std::size_t at = 0;  // among those of DataInputs
    std::string name;
    DType dtype = DType::i64;
    i64 values = 0;  // of a sample
  };
  struct Limit {
    Source source;
    i64 most = 0;  // values are below it; of a mask: so many are not 0
    std::string component, key;
  };
  std::vector<Limit> bounds_, rooms_;
};

}  // namespace tessera
