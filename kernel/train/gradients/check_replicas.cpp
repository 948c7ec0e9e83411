#include "kernel/train/gradients/check_replicas.hpp"

#include <span>
#include <vector>

#include "tessera/base/hash.hpp"
#include "tessera/error.hpp"
#include "tessera/process_group.hpp"

namespace tessera {

namespace {

i64 hash_of(Device& device, const Tensor& tensor) {
  std::vector<u8> values(static_cast<std::size_t>(tensor.bytes()));
  device.read(tensor, values.data());
  return static_cast<i64>(hash64(std::as_bytes(std::span(values))) >> 1);
}

struct Compared {
  const Parameter* parameter;
  GradientSync::HeldForm form;
};

// Compares one number a parameter over a group; returns the first that differs, or -1.
int first_difference(Device& device, const std::vector<i64>& hashes, ProcessGroup& group) {
  const auto count = static_cast<i64>(hashes.size());
  std::vector<i64> extremes[2] = {hashes, hashes};
  for (int i = 0; i < 2; ++i) {
    const Tensor tensor = Tensor::allocate(
        device, device.pool(), device.stream(), {count}, DType::i64, Category::communication);
    device.write(tensor, hashes.data());
    group
        .all_reduce(
            device.stream(), tensor, i == 0 ? ReduceOp::min : ReduceOp::max, "replica check")
        .wait(device.stream());
    device.read(tensor, extremes[i].data());
  }
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    if (extremes[0][i] != extremes[1][i]) return static_cast<int>(i);
  }
  return -1;
}

// Buffers are whole on every rank of a stage.
void check_buffers(Context& cx, const ModelParts& parts, ProcessGroup& group, i64 step) {
  if (group.size() == 1) return;
  std::vector<i64> hashes;
  std::vector<const Buffer*> compared;
  for (const auto& buffer : parts.buffers()) {
    if (!buffer->saved) continue;
    hashes.push_back(hash_of(*cx.device, buffer->value));
    compared.push_back(buffer.get());
  }
  if (hashes.empty()) return;
  const int index = first_difference(*cx.device, hashes, group);
  if (index < 0) return;
  fail(
      "replicas of buffer \"{}\" differ within {} after step {}: what its layer updates it from is "
      "not the same on every rank",
      compared[static_cast<std::size_t>(index)]->name,
      group.name(),
      step);
}

}  // namespace

void check_replicas(Context& cx, const ModelParts& parts, const GradientSync& gradients, i64 step) {
  const auto compare = [&](ProcessGroup& group, auto&& copied) {
    if (group.size() == 1) return;
    std::vector<i64> hashes;
    std::vector<Compared> compared;
    for (const ModelParts::Entry& entry : parts.parameters()) {
      const Parameter* p = entry.parameter.get();
      if (!copied(p->layout)) continue;
      for (const GradientSync::HeldForm& form : gradients.held_forms(*p)) {
        hashes.push_back(hash_of(*cx.device, form.values));
        compared.push_back({p, form});
      }
    }
    const int index = first_difference(*cx.device, hashes, group);
    if (index < 0) return;
    const auto& [parameter, form] = compared[static_cast<std::size_t>(index)];
    fail(
        "replicas of parameter \"{}\" differ within {} after step {}, in their {} values: a "
        "reduction is missing or not the same on every rank",
        parameter->name,
        group.name(),
        step,
        form.name);
  };
  using Layout = const ParameterLayout&;
  const Mesh& mesh = *cx.mesh;
  compare(mesh.data_context(), [](Layout p) { return !p.expert(); });
  compare(mesh.group(Axis::tensor), [](Layout p) { return !p.expert() && !p.cut(Axis::tensor); });
  compare(mesh.group(Axis::expert_data), [](Layout p) { return p.expert(); });
  compare(mesh.group(Axis::expert_tensor),
          [](Layout p) { return p.expert() && !p.cut(Axis::expert_tensor); });
  compare(mesh.group(Axis::expert), [](Layout p) { return p.expert() && !p.cut(Axis::expert); });
  check_buffers(cx, parts, mesh.data_context(), step);
  check_buffers(cx, parts, mesh.group(Axis::tensor), step);
  gradients.check_shared_equal(cx);
}

}  // namespace tessera
