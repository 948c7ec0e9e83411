#pragma once
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "tessera/layer.hpp"

namespace tessera {

/// Layers one after the other, in training only: otherwise the model ends before them.
class TrainingOnly final : public Layer {
 public:
  explicit TrainingOnly(std::vector<std::shared_ptr<Layer>> layers) : layers_(std::move(layers)) {}

  std::vector<Phase> do_phases() override {
    std::vector<Phase> all;
    for (const auto& layer : layers_) {
      std::vector<Phase> phases = layer->phases();
      std::ranges::move(phases, std::back_inserter(all));
    }
    for (Phase& phase : all) {
      phase.training_only = true;
      phase.incremental = true;  // a text is generated without them
    }
    return all;
  }
  void do_end_step(Context& cx) override {
    for (const auto& layer : layers_) layer->end_step(cx);
  }

 private:
  std::vector<std::shared_ptr<Layer>> layers_;
};

}  // namespace tessera
