#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/identified.hpp"
#include "tessera/base/parameter_memory.hpp"
#include "tessera/context.hpp"
#include "tessera/schema.hpp"
#include "tessera/shards.hpp"

namespace tessera {

struct RuleArguments {
  const Device* device = nullptr;  ///< always given; for the rule's own operations
};

/// How parameters are updated. Plugin kind "rule". Launches operations only; reads learning rate,
/// step count and skip decision from device scalars. The gradients are zeroed by the update.
///
/// A rule that has to see all elements of a parameter at once (a norm of each, a matrix), or that
/// keeps state with a shape of its own, states `static constexpr bool kWholeParameters = true`.
/// Where replicas update shards, each of them then updates whole parameters. What tensor
/// parallelism cuts the rule gathers or sums itself (Parameter::layout says what is cut): the ranks
/// of a tensor group update the same parameters in the same order.
class TESSERA_API UpdateRule : public Identified {
 public:
  static constexpr std::string_view kKind = "rule";
  using Arguments = RuleArguments;

  ~UpdateRule() override;
  std::vector<StateSpec> state() const;
  /// Weight decay for parameters that take it (not for biases and norms).
  double weight_decay() const;
  /// How many sums over all elements of the model an update depends on, as Prodigy's two
  /// (Mishchenko and Defazio 2023).
  i64 sums() const;
  /// For a rule with sums(): adds what these shards contribute to `sums` fp64 [sums()]. Called in
  /// every step before update(), once for each set that update() is called for, on zeros; the sum
  /// over all logical elements, each counted once, is Shards::sums in update(). May change state.
  void add_sums(Context& cx, const Shards& shards, const Tensor& scalars, const Tensor& sums) const;
  /// Updates shards that have the same state tensors; called once a step for each such set. A rule
  /// that needs no more than elements does it in one launch. `scalars`: fp64 [step_scalar::kCount]
  /// (ops/update.hpp).
  void update(Context& cx, const Shards& shards, const Tensor& scalars) const;

 private:
  virtual std::vector<StateSpec> do_state() const = 0;
  virtual double do_weight_decay() const { return 0; }
  virtual i64 do_sums() const { return 0; }
  virtual void do_add_sums(Context& cx,
                           const Shards& shards,
                           const Tensor& scalars,
                           const Tensor& sums) const;
  virtual void do_update(Context& cx, const Shards& shards, const Tensor& scalars) const = 0;
};

/// Learning rates by update. Plugin kind "lr".
struct LrArguments {
  i64 steps = 1;  ///< updates of the whole run
};
class TESSERA_API LrSchedule : public Identified {
 public:
  static constexpr std::string_view kKind = "lr";
  using Arguments = LrArguments;

  ~LrSchedule() override;
  /// Rate of update `step`, counted from 1.
  double rate(i64 step) const;

 private:
  virtual double do_rate(i64 step) const = 0;
};

/// Which ranks hold a tensor of an optimizer among the replicas of its parameter.
enum class StateHolders : u8 {
  every_replica,  ///< equal values on all: one of them saves it
  this_rank,      ///< no other replica has these elements: each saves its own
};

/// One rank's named optimizer tensor for checkpoints: the state of a parameter or of a part of it.
struct NamedState {
  std::string name;  ///< "first_moment"
  const Parameter* parameter = nullptr;
  FlatRange range;  ///< elements of tensor_of() that it holds
  Tensor tensor;    ///< [range.length]
  StateHolders holders = StateHolders::every_replica;
  std::shared_ptr<const LogicalTensor> own = {};  ///< of state with a shape of its own (own_state)

  /// What the state is laid out as: the parameter, or a tensor of its own.
  const LogicalTensor& tensor_of() const { return own != nullptr ? *own : *parameter; }
};

/// State `spec`, number `state` of the rule's, of shard `index`.
TESSERA_API NamedState named_state(const Shards& shards,
                                   std::size_t index,
                                   const StateSpec& spec,
                                   std::size_t state,
                                   StateHolders holders);
/// The same of every shard and state, where all shards have all states.
TESSERA_API std::vector<NamedState> named_states(const Shards& shards,
                                                 std::span<const StateSpec> specs,
                                                 StateHolders holders);

class BuildContext;
/// What an optimizer is made from; provided by the trainer. All pointers are given.
struct OptimizerArguments {
  std::span<Parameter* const> parameters;   ///< of this rank, in model order
  std::span<const ParameterName> model;     ///< all of the model, those of other stages too
  const ParameterMemory* memory = nullptr;  ///< of these parameters; outlives the optimizer
  const Mesh* mesh = nullptr;
  Device* device = nullptr;
  /// Makes the rule in the optimizer's slot.
  std::function<std::shared_ptr<UpdateRule>(const Component<UpdateRule>&)> make_rule;
};

/// Decides which shards of the parameters are updated here, and updates them. Plugin kind
/// "optimizer". Gradients arrive summed over data-parallel ranks as the plan's Reduce actions say:
/// all of them on every replica, or, where the class states `static constexpr bool kShardsReplicas
/// = true`, each replica's own shard of every bucket (ParameterBucket::shard) and anything in the
/// rest; all of them, too, where shards are whole parameters. Then each replica updates its shard
/// (own_shards()), and the plan's Gather actions bring the others'.
class TESSERA_API Optimizer : public Identified {
 public:
  static constexpr std::string_view kKind = "optimizer";
  using Arguments = OptimizerArguments;

  ~Optimizer() override;
  /// Adds this rank's part of the sum of squares over all logical elements, each counted by one
  /// rank (ParameterLayout::counted), into `out` fp64 [2]: of dense parameters, then of experts,
  /// which are summed over other groups.
  void sum_squares(Context& cx, const Tensor& out);
  /// Updates what is updated here and zeroes all gradients.
  void step(Context& cx, const Tensor& scalars);
  /// Gradient clipping bound of the global norm; 0: none.
  double clip() const;
  std::vector<NamedState> state();

 private:
  virtual void do_sum_squares(Context& cx, const Tensor& out) = 0;
  virtual void do_step(Context& cx, const Tensor& scalars) = 0;
  virtual double do_clip() const = 0;
  virtual std::vector<NamedState> do_state() = 0;
};

}  // namespace tessera
