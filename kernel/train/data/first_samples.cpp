#include "kernel/train/data/first_samples.hpp"

#include <algorithm>
#include <vector>

#include "kernel/train/data/sample_reader.hpp"

namespace tessera {

void check_first_samples(const RunSetup& setup, ModelParts& parts, const Mesh& mesh) {
  const bool enough = std::ranges::none_of(parts.bounds(), [&](const ModelParts::Bound& bound) {
    return bound.input == "positions" && bound.values < setup.sequence_length;
  });
  if (enough || setup.dataset == nullptr) return;
  BatchShape one = setup.batch;
  one.micro = 1;
  const SampleReader reader(*setup.dataset, parts, one, mesh);
  std::vector<std::byte> memory(static_cast<std::size_t>(reader.microbatch_bytes()));
  std::vector<i64> weights(static_cast<std::size_t>(reader.losses()));
  const RunConfig& config = *setup.config;
  const auto look = [&](SampleSet set, i64 samples) {
    for (i64 i = 0; i < std::min(samples, kFirstSamples); ++i) {
      reader.read(set, i, 1, 0, 1, memory.data(), weights);
    }
  };
  look(SampleSet::train, config.run.steps * config.batch.global);
  look(SampleSet::validation, setup.validation_samples);
}

}  // namespace tessera
