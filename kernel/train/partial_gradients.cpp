#include "kernel/train/partial_gradients.hpp"

#include <algorithm>

#include "tessera/ops.hpp"

namespace tessera {

PartialGradients::PartialGradients(const std::vector<ModelParts::Entry>& parameters,
                                   const Mesh& mesh,
                                   Device& device) {
  for (const ModelParts::Entry& entry : parameters) {
    std::vector<ProcessGroup*> groups;
    for (const Axis axis : entry.parameter->partial) {
      if (mesh.size(axis) > 1) groups.push_back(&mesh.group(axis));
    }
    if (groups.empty()) continue;
    auto part = std::ranges::find(parts_, groups, &Part::groups);
    if (part == parts_.end()) {
      part = parts_.emplace(part);
      part->groups = groups;
    }
    part->gradients.push_back(entry.parameter->grad);
  }
  for (Part& part : parts_) {
    i64 elements = 0;
    for (const Tensor& gradient : part.gradients) elements += gradient.elements();
    part.together = Tensor::allocate(device,
                                     device.pool(),
                                     device.stream(),
                                     {elements},
                                     part.gradients[0].dtype(),
                                     Category::communication);
    i64 begin = 0;
    for (const Tensor& gradient : part.gradients) {
      part.places.push_back(
          part.together.slice(0, begin, gradient.elements()).view(gradient.shape()));
      begin += gradient.elements();
    }
  }
}

void PartialGradients::sum(Context& cx) const {
  const auto copy = [&](const Tensor& from, const Tensor& to) {
    CopyArgs args{from.arg(), to.arg()};
    ops::run(cx, cx.ops->copy, args);
  };
  for (const Part& part : parts_) {
    for (std::size_t i = 0; i < part.places.size(); ++i) copy(part.gradients[i], part.places[i]);
    for (ProcessGroup* group : part.groups) {
      group->all_reduce(*cx.stream, part.together, ReduceOp::sum, "partial gradients")
          .wait(*cx.stream);
    }
    for (std::size_t i = 0; i < part.places.size(); ++i) copy(part.places[i], part.gradients[i]);
  }
}

}  // namespace tessera
