#pragma once
#include <string>
#include <vector>

#include "kernel/model/model_parts.hpp"
#include "tessera/comm.hpp"
#include "tessera/context.hpp"
#include "tessera/parameter_memory.hpp"

namespace tessera {

/// The sums of one rank's gradients over the ranks, bucket by bucket. All parameters of a bucket
/// are summed alike: first over the axes along which each rank has a part, then over the replicas
/// (data × context, or expert_data for experts), then over the pipeline ranks that share a
/// parameter (tied embeddings), in the order of their stages, so that all copies stay bit-equal.
class GradientSync {
 public:
  struct Bucket {
    Tensor flat;              ///< [elements]
    std::vector<int> layers;  ///< whose backward adds to it
    std::vector<ProcessGroup*> partial;
    ProcessGroup* replicas = nullptr;
    std::string name;  ///< for errors
  };

  /// Allocates the gradients of `memory`, which is laid out over `parameters`; not yet zero.
  GradientSync(ParameterMemory& memory,
               const std::vector<ModelParts::Entry>& parameters,
               const Mesh& mesh,
               Device& device);

  const std::vector<Bucket>& buckets() const { return buckets_; }
  /// Layers whose backward adds to each bucket: what a plan reduces when.
  std::vector<std::vector<int>> bucket_layers() const;
  void zero(Context& cx) const;

  /// Starts the sums of a bucket that is complete on this rank. All ranks of its groups call it for
  /// the same buckets in the same order.
  void reduce(Context& cx, int bucket);
  /// Later work of the context's stream sees all gradients summed.
  void finish(Context& cx);
  /// Throws Error naming the first shared parameter whose values differ between its holders. Waits
  /// for the device. All ranks of the pipeline call it.
  void check_shared_equal(Context& cx) const;

 private:
  std::vector<Tensor> gather(Context& cx, const Parameter& parameter, const Tensor& own) const;
  void sum_shared(Context& cx) const;

  ProcessGroup* pipeline_;
  Tensor flat_;
  std::vector<Bucket> buckets_;
  std::vector<Parameter*> shared_;  // in one order on every rank
  std::vector<Work> started_;
};

}  // namespace tessera
