#pragma once
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tessera/base/parameter_memory.hpp"
#include "tessera/base/state_spec.hpp"
#include "tessera/device/device.hpp"

namespace tessera {

/// Hyperparameters of one parameter.
struct Hyper {
  double lr_scale = 1;
  double weight_decay = 0;
};
/// What parameters usually have: biases and norms have no weight decay.
TESSERA_API Hyper usual_hyper(const Parameter& parameter, double weight_decay);

/// The part of one parameter that is updated on this rank, and where it begins in flat memory.
struct Shard {
  const Parameter* parameter = nullptr;
  FlatRange range;  ///< of the parameter's storage
  i64 grad = 0;     ///< element of `grad` and of `compute`
  i64 main = 0;     ///< element of `main`
  i64 state = 0;    ///< element of state of the parameter's shape; Shards::allocate() sets it
  Hyper hyper = {};
};

/// What a rule updates in one call: shards in flat tensors, with gaps between them that are not
/// theirs. A kernel gets all of them at once, with `ranges` and `hyper` (for_each_shard.hpp). Main
/// values may lie elsewhere than gradients, because a rank may hold only those that it updates; a
/// state tensor holds these shards and nothing else.
struct TESSERA_API Shards {
  std::vector<Shard> list;  ///< by grad
  Tensor main, grad;        ///< main dtype
  Tensor compute;           ///< undefined when it is the same memory as main
  /// Flat, in the order of UpdateRule::state(); undefined where these shards have none. state_of()
  /// gives state with a shape of its own.
  std::vector<Tensor> state;
  /// A state with a shape of its own, and where it begins in the state tensor.
  struct Own {
    std::shared_ptr<const LogicalTensor> logical;
    i64 begin = 0;
  };
  std::vector<std::vector<Own>> own;  ///< by state and shard
  bool has_own(std::size_t of) const { return of < own.size() && !own[of].empty(); }
  Tensor ranges;  ///< i64 [shards, 4]: length; begin in grad, in main, in state
  Tensor hyper;   ///< fp64 [shards, 2]: learning-rate scale, weight decay
  Tensor sums;    ///< fp64 [UpdateRule::sums()], in update(); undefined: none

  Shards() = default;
  /// These shards of the rank's parameters in `memory`, of which own_shards() has all.
  Shards(const ParameterMemory& memory, std::vector<Shard> shards);

  /// The elements of shard `index`, [its length]: for rules that work on one parameter after the
  /// other. State with a shape of its own has this rank's part of that.
  Tensor grad_of(std::size_t index) const;
  Tensor main_of(std::size_t index) const;
  Tensor state_of(std::size_t state, std::size_t index) const;

  /// Fills `ranges` and `hyper` from `list`, and `state` with its initial values, of this dtype or
  /// main's. All shards have the states of the first one (StateSpec::of).
  void allocate(Device& device,
                const Mesh& mesh,
                std::span<const StateSpec> states,
                std::optional<DType> dtype = {});
  /// The same for `states` tensors of zeros of the parameters' shapes, as a test needs them.
  void allocate(Device& device, std::size_t states, std::optional<DType> dtype = {});

 private:
  i64 place(Device& device);
};

/// The arguments of an update operation but for its state and its constants, for operations that
/// name their tensors as AdamWArgs does (ops/update.hpp). `scalars`: fp64 [step_scalar::kCount].
template <class Args>
Args update_args(const Shards& shards, const Tensor& scalars) {
  Args args;
  args.scalars = scalars.arg();
  args.ranges = shards.ranges.arg();
  args.hyper = shards.hyper.arg();
  args.grad = shards.grad.arg();
  args.main = shards.main.arg();
  if (shards.compute.defined()) args.compute = shards.compute.arg();
  return args;
}

/// What this rank updates of every parameter in `memory`, in the order of its memory.
TESSERA_API std::vector<Shard> own_shards(const ParameterMemory& memory);

}  // namespace tessera
