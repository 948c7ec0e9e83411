#pragma once
#include <vector>

#include "tessera/mesh.hpp"
#include "tessera/parameter.hpp"

namespace tessera {

/// A run of elements that lies contiguously both in this rank's storage and in the logical tensor.
struct ElementRun {
  i64 local = 0, logical = 0, length = 0;
};

/// All runs of a parameter's storage on this rank, padding left out: what initialisation,
/// checkpoints and gathered comparisons walk over.
std::vector<ElementRun> element_runs(const Parameter& parameter, const Mesh& mesh);

/// True when this rank is the one that stands for its part of the parameter: the first of every
/// axis along which the parameter is not cut, and of the stages that share it. Norms and
/// checkpoints count each element once.
bool represents(const Parameter& parameter, const Mesh& mesh);

}  // namespace tessera
