#pragma once
#include <memory>
#include <string>
#include <vector>

#include "kernel/config/run_config.hpp"
#include "kernel/model/chunk.hpp"
#include "kernel/model/placement.hpp"
#include "tessera/data.hpp"

namespace tessera {

/// A slot that carries activations from one stage to the next, and their gradient back.
struct BoundarySlot {
  std::string name;
  Shape shape;
  DType dtype = DType::fp32;
};
using Boundary = std::vector<BoundarySlot>;

/// The whole model built once without memory: what one rank has to know of layers that live on
/// others. The same on every rank of a pipeline group.
class Outline {
 public:
  /// `settings.device` may be missing where no phase will run.
  Outline(const Model& model, const BuildSettings& settings);

  ModelParts& parts() { return parts_; }
  /// Pipeline ranks that hold a parameter, in the order of their stages.
  static std::vector<int> holders(const ModelParts::Entry& entry, const StageMap& map);
  /// What crosses after each stage but the last: runs the layers once on the context's device,
  /// which is meant to be a MetaDevice. `inputs` are the dataset's fields.
  std::vector<Boundary> boundaries(Context cx,
                                   const StageMap& map,
                                   const std::vector<FieldInfo>& inputs,
                                   const BatchShape& batch);
  /// Runs all layers forward, once. The same of the arguments.
  void forward(Context cx, const std::vector<FieldInfo>& inputs, const BatchShape& batch);

 private:
  // One pass over the layers.
  class Pass;

  std::vector<ModelLayer> layers_;
  ModelParts parts_;
  Chunk whole_;
};

/// Marks the phases that [recompute] names.
void mark_recomputed(std::vector<PhaseInfo>& phases,
                     const std::vector<ModelLayer>& layers,
                     const RecomputeSection& recompute);

}  // namespace tessera
