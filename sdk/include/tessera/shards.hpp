#pragma once
#include <cstddef>
#include <optional>
#include <vector>

#include "tessera/device.hpp"
#include "tessera/parameter_memory.hpp"

namespace tessera {

/// Per-parameter hyperparameters, after groups were matched.
struct Hyper {
  double lr_scale = 1;
  double weight_decay = 0;
};

/// The part of one parameter that is updated on this rank, and where it lies in flat memory.
struct Shard {
  const Parameter* parameter = nullptr;
  FlatRange range;  ///< of the parameter's storage
  i64 begin = 0;    ///< element of the flat tensors at which the part begins
  Hyper hyper;
};

/// What a rule updates: shards side by side in flat tensors of one size, with gaps between them
/// that belong to nobody. A kernel gets all of them at once, with `ranges` and `hyper`.
struct TESSERA_API Shards {
  std::vector<Shard> list;    ///< by begin
  Tensor main, grad;          ///< main dtype
  Tensor compute;             ///< undefined when it is the same memory as main
  std::vector<Tensor> state;  ///< in the order of UpdateRule::state()
  Tensor ranges;              ///< i64 [shards, 2]: begin, length
  Tensor hyper;               ///< fp64 [shards, 2]: learning-rate scale, weight decay

  /// The elements of shard `index` in `flat`, which is one of the tensors above: for rules that
  /// work on one parameter after the other.
  Tensor part(const Tensor& flat, std::size_t index) const;
  /// Fills `ranges` and `hyper` from `list`, and `state` with `states` tensors of zeros, of this
  /// dtype or main's.
  void allocate(Device& device, std::size_t states, std::optional<DType> dtype = {});
};

/// Every parameter as one shard, where it lies in `memory`.
TESSERA_API std::vector<Shard> whole_shards(const ParameterMemory& memory);

/// i64 [shards, 2] on the device: begin and length of each, in the order given.
TESSERA_API Tensor range_table(Device& device, const std::vector<Shard>& shards);

}  // namespace tessera
