#include "kernel/model/prepared_weights.hpp"

#include <algorithm>

#include "tessera/ops.hpp"

namespace tessera {

PreparedWeights::PreparedWeights(const ParameterMemory& memory, Device& device, bool forward_only)
    : pack_(device) {
  const Kernel* kernel = device.find(PackWeightArgs::kName);
  if (kernel == nullptr) return;
  // Allocates a form of the parameter, if the device has it.
  const auto add = [&](Parameter& parameter, bool transposed, Tensor Parameter::*form) {
    PackWeightArgs args{parameter.compute.arg(), {}, transposed};
    const i64 bytes = kernel->prepare(&args).output_bytes;
    if (bytes == 0) return;
    parameter.*form = Tensor::allocate(
        device, device.pool(), device.stream(), {bytes}, DType::u8, Category::parameters);
    args.packed = (parameter.*form).arg();
    forms_.back().push_back(args);
  };
  for (const ParameterBucket& bucket : memory.buckets()) {
    forms_.emplace_back();
    for (const ParameterBucket::Member& member : bucket.members) {
      if (!member.parameter->linear) continue;
      add(*member.parameter, true, &Parameter::forward_packed);
      if (!forward_only) add(*member.parameter, false, &Parameter::backward_packed);
    }
  }
  changed();
}

std::vector<bool> PreparedWeights::buckets() const {
  std::vector<bool> buckets;
  for (const auto& forms : forms_) buckets.push_back(!forms.empty());
  return std::ranges::count(buckets, true) > 0 ? buckets : std::vector<bool>();
}

void PreparedWeights::prepare(Context& cx, int bucket) {
  const auto i = static_cast<std::size_t>(bucket);
  if (!old_.at(i)) return;
  old_[i] = false;
  for (PackWeightArgs& args : forms_[i]) ops::run(cx, pack_, args);
}

void PreparedWeights::prepare_all(Context& cx) {
  for (int bucket = 0; bucket < static_cast<int>(forms_.size()); ++bucket) prepare(cx, bucket);
}

}  // namespace tessera
