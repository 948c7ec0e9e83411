#pragma once
#include "kernel/model/model_parts.hpp"
#include "kernel/train/setup/run_setup.hpp"
#include "tessera/mesh.hpp"

namespace tessera {

/// So many samples of a set are looked at before a run, where there is something to find.
inline constexpr i64 kFirstSamples = 1000;

/// Where the data says which positions its tokens have, a sample may have more places than a layer
/// of this rank knows positions: that is right as long as they begin anew often enough, which only
/// the samples tell. Reads the first ones of the sets that the run reads, and throws Error for one
/// that is not as the layers say (SampleCheck). Otherwise does nothing.
void check_first_samples(const RunSetup& setup, ModelParts& parts, const Mesh& mesh);

}  // namespace tessera
