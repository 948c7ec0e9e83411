#include "kernel/model/chunk.hpp"

#include "tessera/error.hpp"

namespace tessera {

PhaseInfo passing_info(int chunk) {
  PhaseInfo info;
  info.chunk = chunk;
  info.layer = kNoLayer;
  info.scope = "pass";
  return info;
}

Chunk::Chunk(const Model& model,
             int index,
             int first,
             int last,
             const BuildSettings& settings,
             ModelParts& parts)
    : index_(index) {
  const std::vector<ModelLayer> plan = model.layers();
  for (int i = first; i < last; ++i) {
    ScopedBuild build(settings, parts, i, plan.at(static_cast<std::size_t>(i)).name, "model");
    std::shared_ptr<Layer> layer = model.build(i, build);
    for (Phase& phase : layer->phases()) {
      infos_.push_back({.chunk = index,
                        .layer = i,
                        .phase = static_cast<int>(phases_.size()),
                        .scope = std::string(phase.scope),
                        .shapes = phase.shapes,
                        .starts_exchange = phase.starts_exchange});
      phases_.push_back(std::move(phase));
    }
    layers_.push_back(std::move(layer));
  }
  if (first == last) {
    infos_.push_back(passing_info(index));
    Phase& phase = phases_.emplace_back();
    phase.scope = "pass";
    phase.run = [](Context&, Bundle&) {};
  }
}

void Chunk::end_step(Context& cx) {
  for (const auto& layer : layers_) layer->end_step(cx);
}

}  // namespace tessera
