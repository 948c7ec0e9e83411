#pragma once
#include <vector>

#include "kernel/model/model_parts.hpp"
#include "tessera/comm.hpp"
#include "tessera/context.hpp"
#include "tessera/mesh.hpp"

namespace tessera {

/// Gradients of parameters that are replicated while each rank saw a part of what they are summed
/// over (ParameterSpec::partial). They are many and small, so those with the same axes are summed
/// side by side in one message.
class PartialGradients {
 public:
  /// After the gradients have their memory.
  PartialGradients(const std::vector<ModelParts::Entry>& parameters,
                   const Mesh& mesh,
                   Device& device);
  void sum(Context& cx) const;

 private:
  struct Part {
    std::vector<ProcessGroup*> groups;
    std::vector<Tensor> gradients;
    Tensor together;             ///< [elements of all]
    std::vector<Tensor> places;  ///< views of it, one a gradient
  };
  std::vector<Part> parts_;
};

}  // namespace tessera
