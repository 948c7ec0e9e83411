#pragma once
#include <span>
#include <vector>

#include "tessera/device/device.hpp"
#include "tessera/parameter.hpp"

namespace tessera {

/// Into how many shards buckets are cut, one for each replica, and which of them this rank updates.
struct BucketCut {
  i64 shards = 0;  ///< 0: they are not cut
  i64 own = 0;
};

/// How parameters are laid out in buckets, as Megatron-Core's buffers are, but for this: buckets
/// are smaller by default, parameters with other partial gradients have buckets of their own,
/// parameters of buckets that are not cut are aligned too, and no bucket is padded for the
/// bandwidth of switches.
struct BucketRules {
  i64 elements = 4'000'000;  ///< a bucket closes when it holds so many or more
  i64 alignment = 64;        ///< every parameter begins at a multiple of so many elements
  /// A bucket that is cut into shards ends at a multiple of its shards and of so many elements.
  i64 pad = 128;
  BucketCut dense = {};    ///< over data × context
  BucketCut experts = {};  ///< over expert_data
  /// A shard is whole parameters instead of a part of each bucket.
  bool whole = false;

  /// The rules of a run in which every replica updates a shard, or everything.
  TESSERA_API static BucketRules of(const Mesh& mesh, i64 elements, bool sharded, bool whole);
};

/// Parameters whose gradients are summed alike, side by side in memory.
struct ParameterBucket {
  struct Member {
    Parameter* parameter = nullptr;
    i64 begin = 0;  ///< from the start of the bucket
    /// Where shards are whole parameters: the one that it belongs to, and where it begins there.
    i64 shard = kCut, shard_begin = 0;
  };
  static constexpr i64 kCut = -1;
  std::vector<Member> members;  ///< by begin, which is in reverse order of declaration
  i64 begin = 0;                ///< from the start of the rank's memory
  i64 elements = 0;             ///< the gaps of alignment and the padding at the end included
  i64 shards = 1;               ///< of which each replica updates one
  i64 own = 0;                  ///< which of them this rank updates
  i64 own_begin = 0;            ///< from the start of all shards that this rank updates

  /// The range from the start of the bucket, where shards are equal parts of it.
  FlatRange shard(i64 index) const { return {index * (elements / shards), elements / shards}; }
  FlatRange own_shard() const { return shard(own); }
};

/// What one shard holds of one parameter, in the four coordinates of Megatron-Core's distributed
/// optimizer. All four have one length; 0: nothing.
struct ShardRanges {
  FlatRange world;   ///< in the rank's memory
  FlatRange local;   ///< in the shard of the bucket; among all whole parameters of a shard
  FlatRange param;   ///< in the parameter's storage
  FlatRange bucket;  ///< in the bucket
};
/// The parameters of one rank in contiguous memory, bucket after bucket. Each form (main, compute,
/// gradient) is one tensor, and a parameter lies at the same place in all of them. Where there are
/// shards and the compute values are memory of their own, the main values of this rank's shards are
/// all that it has of them: `Parameter::main` of what it does not have whole stays undefined.
///
/// Memory is in reverse order of declaration, so buckets fill up from the end of the model while
/// the backward pass runs. A bucket holds parameters of one kind: expert or not, the same axes of
/// partial gradients; a shared parameter (tied embeddings) has a bucket of its own, as
/// Megatron-Core gives it.
class TESSERA_API ParameterMemory {
 public:
  ParameterMemory() = default;
  /// Lays out without allocating. `parameters`, in model order, outlive it.
  ParameterMemory(std::span<Parameter* const> parameters, const BucketRules& rules);

  /// Allocates main and compute values, one memory where the dtypes agree, and points the
  /// parameters' forms into it. Values are undefined.
  void allocate_values(Device& device, DType main, DType compute);
  /// The same for gradients, in main's dtype; after the values.
  void allocate_gradients(Device& device);

  const std::vector<ParameterBucket>& buckets() const { return buckets_; }
  i64 elements() const { return elements_; }
  /// [elements()], or the shards that this rank updates.
  const Tensor& main() const { return main_; }
  bool has_all_main() const { return main_.elements() == elements_; }
  /// Where in main() the values of `ranges` begin, which this rank updates.
  i64 main_begin(const ParameterBucket& bucket, const ShardRanges& ranges) const;
  /// [elements()]; undefined when main's memory serves.
  const Tensor& compute() const { return compute_; }
  const Tensor& gradients() const { return gradients_; }  ///< [elements()]

 private:
  /// Points `form` of every parameter into `flat`.
  void place(const Tensor& flat, Tensor Parameter::*form) const;
  void share_out(std::span<Parameter* const> parameters, i64 alignment);

  std::vector<ParameterBucket> buckets_;
  i64 elements_ = 0, own_elements_ = 0;
  Tensor main_, compute_, gradients_;
};

TESSERA_API ShardRanges shard_ranges(const ParameterBucket& bucket,
                                     const ParameterBucket::Member& member,
                                     i64 shard);

}  // namespace tessera
