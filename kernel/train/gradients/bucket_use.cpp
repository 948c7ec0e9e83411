#include "kernel/train/gradients/bucket_use.hpp"

#include <algorithm>

namespace tessera {

namespace {

// Layers whose backward adds to a bucket, in the order of its parameters.
std::vector<int> layers_of(const ParameterBucket& bucket,
                           const std::vector<ModelParts::Entry>& parameters) {
  std::vector<int> layers;
  for (const auto& member : bucket.members) {
    const auto entry = std::ranges::find_if(parameters, [&](const ModelParts::Entry& candidate) {
      return candidate.parameter.get() == member.parameter;
    });
    for (const int layer : entry->layers) {
      if (std::ranges::find(layers, layer) == layers.end()) layers.push_back(layer);
    }
  }
  return layers;
}

}  // namespace

BucketUse bucket_use_of(const ParameterMemory& memory,
                        const std::vector<ModelParts::Entry>& parameters) {
  BucketUse use;
  for (const ParameterBucket& bucket : memory.buckets()) {
    use.layers.push_back(layers_of(bucket, parameters));
    use.groups.emplace_back(bucket.members.front().parameter->layout.expert() ? "edp" : "dp-cp");
    use.gathered |= bucket.shards > 1;
  }
  return use;
}

}  // namespace tessera
