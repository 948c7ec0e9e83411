#pragma once
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernel/model/model_parts.hpp"
#include "tessera/base/parameter_memory.hpp"
#include "tessera/context.hpp"
#include "tessera/process_group.hpp"

namespace tessera {

/// The sums of one rank's gradients over the ranks, bucket by bucket. All parameters of a bucket
/// are summed alike: first over the axes along which each rank has a part, then over the replicas
/// (data × context, or expert_data for experts), then over the pipeline ranks that share a
/// parameter (tied embeddings), in the order of their stages, so that all copies stay bit-equal.
///
/// Where the memory is cut into shards, a replica gets the sums of its own shard of each bucket
/// only, with the same bits, and the updated parameters of the others' shards are gathered. Where
/// shards are whole parameters, it gets all sums, and each parameter comes from its owner.
class GradientSync {
 public:
  struct Bucket {
    Tensor flat;          ///< gradients, [elements]
    FlatRange own_range;  ///< of the bucket
    Tensor own;           ///< that part of `flat`: it is summed on this rank
    Tensor values;        ///< what layers read, [elements]
    Tensor own_values;    ///< the part of `values` that is updated on this rank
    struct Owned {
      Tensor values;
      int owner = 0;  ///< among the replicas
    };
    std::vector<Owned> whole;  ///< parameters, where each is updated whole by one replica
    std::vector<ProcessGroup*> partial;
    ProcessGroup* replicas = nullptr;
    std::string name, values_name;  ///< for errors
    bool cut() const { return own.elements() < flat.elements(); }
  };

  /// Allocates the gradients of `memory`; not yet zero.
  /// Replicas send each other gradients in `sent`, or as they are, and add them in fp32 at least.
  GradientSync(ParameterMemory& memory,
               const Mesh& mesh,
               Device& device,
               std::optional<DType> sent = {});

  const std::vector<Bucket>& buckets() const { return buckets_; }
  void zero(Context& cx) const;

  /// Starts the sums of a bucket that is complete on this rank. All ranks of its groups call it for
  /// the same buckets in the same order.
  void reduce(Context& cx, int bucket);
  /// Later work of the context's stream sees all gradients summed.
  void finish(Context& cx);

  /// Call after an update: the values of other ranks' shards are old until they are gathered.
  void updated() { old_.assign(old_.size(), sharded_); }
  /// Starts to gather the values of a bucket, if they are old; wait_gathered lets later work of the
  /// context's stream see them. All ranks of its replicas call both for the same buckets in the
  /// same order.
  void gather(Context& cx, int bucket);
  void wait_gathered(Context& cx, int bucket);
  /// Gathers whatever is old. Between steps, for what reads parameters there.
  void gather_all(Context& cx);
  /// The forms of a parameter that every replica holds whole: main values, where a rank does not
  /// hold those of its shard only, and compute values, where they are not the same memory.
  struct HeldForm {
    std::string_view name;
    Tensor values;
  };
  std::vector<HeldForm> held_forms(const Parameter& parameter) const;
  /// Throws Error naming the first shared parameter whose values differ between its holders. Waits
  /// for the device. All ranks of the pipeline call it.
  void check_shared_equal(Context& cx) const;

 private:
  void sum_replicas(Context& cx, const Bucket& bucket);
  void finish_first(Context& cx);
  std::vector<Tensor> of_holders(Context& cx, const Parameter& parameter, const Tensor& own) const;
  void sum_shared(Context& cx) const;

  ProcessGroup* pipeline_;
  Tensor flat_;
  DType sent_ = DType::fp32;  // in which replicas send each other gradients
  bool sharded_ = false, all_main_ = true;
  std::vector<Bucket> buckets_;
  struct Shared {
    Parameter* parameter;
    Tensor gradient;  // the part of it that is summed on this rank
  };
  std::vector<Shared> shared_;  // in one order on every rank
  struct Started {
    Work work;
    const Bucket* bucket;
    Tensor rounded;  // the bucket as it is sent; undefined where gradients are sent as they are
  };
  std::deque<Started> started_;
  std::vector<bool> old_;                    // by bucket
  std::vector<std::vector<Work>> gathered_;  // by bucket
};

}  // namespace tessera
