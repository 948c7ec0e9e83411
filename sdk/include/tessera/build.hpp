#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/buffer.hpp"
#include "tessera/base/metrics.hpp"
#include "tessera/base/sequence_cache.hpp"
#include "tessera/later_input.hpp"
#include "tessera/layer.hpp"
#include "tessera/model_fields.hpp"
#include "tessera/operation.hpp"
#include "tessera/parameter.hpp"
#include "tessera/random.hpp"
#include "tessera/schema.hpp"
#include "tessera/tensor_region.hpp"

namespace tessera {

/// What a loss term is a mean over. Weights come from the data alone and are summed, as integers,
/// over the global batch before the first forward pass.
enum class LossWeight : u8 {
  field,    ///< the sum of the data's mask for this term (FieldInfo::loss)
  samples,  ///< the samples; a validation of such a term of the run's loss needs full batches
  tokens,   ///< the positions of all samples; alike
};

/// What a layer declares of a loss term. Layers that declare the same name add to one term.
struct LossSpec {
  std::string_view name;
  LossWeight weight = LossWeight::field;
  /// Is it trained on without being a part of the run's loss? Then its value is a metric of this
  /// name.
  bool auxiliary = false;
  /// Of LossWeight::field: the input whose sum is the weight, "loss_mask+1" (later_input.hpp).
  /// Empty: the data's field for this term.
  std::string_view mask = {};
  /// Of LossWeight::field: the layer has room for so many rows of a sample whose mask is 1, which
  /// its key `most_key` sets; a sample with more ends the run. 0: for all.
  i64 most = 0;
  std::string_view most_key = {};
  /// Of an auxiliary term: the metric that its value is added to, in place of one of its own name.
  std::string_view metric = {};
  /// Those of tensor, context and data along which each rank adds a part of its own. Along the
  /// others all ranks add the same value, which counts once.
  std::vector<Axis> partial = {Axis::context, Axis::data};
};

/// The microbatch a model is built for.
struct BatchShape {
  i64 micro = 1;     ///< samples a microbatch (b)
  i64 sequence = 1;  ///< positions a sample on this rank: sequence length / context parallelism
  /// Rows of a microbatch on this context-parallel rank. Input slots ("tokens", "row_ids", …) hold
  /// them all; what is between tensor regions may hold fewer (TensorRegion::own_rows).
  i64 rows() const { return micro * sequence; }
};

/// Which rows a child is applied to.
enum class ChildRows : u8 {
  ours,  ///< those of the component around it
  own,   ///< rows of which each rank of the tensor group has others, as those of its own heads
};

/// Handed to the constructors of layers, modules and models: declares what they need. Names are
/// relative to the component's scope, which is its place in the model ("layers.3.attention"), so
/// parameter names do not depend on the layout. Building allocates no device memory: `config check`
/// builds every rank's model too.
class TESSERA_API BuildContext {
 public:
  virtual ~BuildContext();

  virtual const Mesh& mesh() const = 0;
  virtual const BatchShape& batch() const = 0;
  /// Positions of a whole sample, of which each context-parallel rank has batch().sequence.
  i64 sequence_length() const;
  virtual DType compute_dtype() const = 0;
  /// "layers.3.attention": scope of the component being built.
  virtual std::string scope() const = 0;
  /// The tensor-parallel part of this component, its collectives named after scope().
  TensorRegion tensor_region() const;
  /// This rank's share of `whole` things (`what`: "inner features") that a layout axis divides
  /// equally. Where they do not divide, it rejects the key that says how many there are: "10 inner
  /// features do not divide among parallel.tensor = 4 ranks".
  i64 divide(i64 whole,
             std::string_view key,
             std::string_view what,
             Axis axis = Axis::tensor) const;

  /// Declares a parameter; the reference stays valid as long as the model. Its tensors are there
  /// from the first phase on. Throws ConfigError when a cut does not divide, Error when the
  /// placement is missing.
  virtual Parameter& parameter(const ParameterSpec& spec) = 0;
  /// Declares a buffer; the reference stays valid as long as the model. Its tensor is there from
  /// the first phase on.
  virtual Buffer& buffer(const BufferSpec& spec) = 0;
  /// A slot of the bundle, one per name over the whole chunk: "hidden", "residual", "tokens". What
  /// the data has some positions later is in slots of later_input.hpp: "tokens+1".
  virtual Slot slot(std::string_view name) = 0;
  virtual HostSlot host_slot(std::string_view name) = 0;
  /// Declares that values of an input are 0 … values - 1, as rows of a table or classes are, which
  /// `key` of this component sets. The kernel looks at each sample that it reads: another value
  /// ends the run, naming both. An input that the data does not have is not looked at.
  virtual void bound(std::string_view input, i64 values, std::string_view key) = 0;
  /// A place of this component's own in Context::cache.
  virtual CacheSlot cache_slot() = 0;
  /// Philox key of a random site of this component: (seed, scope, name).
  virtual u64 random_site(std::string_view name) = 0;
  /// Declares a loss term. Throws ConfigError when another layer has declared it otherwise.
  virtual LossTerm loss(const LossSpec& spec) = 0;
  virtual Metric metric(const MetricSpec& spec) = 0;
  /// Declares integers that this component counts; once.
  virtual Counts counts(const CountSpec& spec) = 0;
  /// An operation of the rank's device, for plugins with operations of their own. During
  /// `config check` the handle is empty.
  template <class Args>
  Operation<Args> operation() const {
    return device() != nullptr ? Operation<Args>(*device()) : Operation<Args>();
  }

  /// Builds the component in a slot: `build.child("qkv", config.qkv, {{"in", h}, {"out", 3 * h}})`.
  /// Its scope is this scope + "." + name; `given` sets its given fields. A child of ChildRows::own
  /// declares parameters with TensorRegion::per_row() as any other does: their gradients are summed
  /// over the tensor group.
  template <class K>
  std::shared_ptr<K> child(std::string_view name,
                           const Component<K>& component,
                           const Given& given = {},
                           ChildRows rows = ChildRows::ours) {
    std::shared_ptr<void> made =
        make_child(K::kKind, name, component.type, component.path, given, rows);
    return {made, static_cast<K*>(made.get())};
  }

  /// Reports a problem with a key of this component's table: `reject("heads", "…")`. Throws
  /// ConfigError with file, line and column of the key.
  [[noreturn]] virtual void reject(std::string_view key, std::string_view why) const = 0;

 protected:
  virtual const Device* device() const = 0;
  /// Do the ranks of a tensor group have rows of their own here?
  virtual bool own_rows() const = 0;
  virtual std::shared_ptr<void> make_child(std::string_view kind,
                                           std::string_view name,
                                           const std::string& type,
                                           const std::string& path,
                                           const Given& given,
                                           ChildRows rows) = 0;
};

}  // namespace tessera
