#include "kernel/train/gradients/gradient_buffer.hpp"

#include <algorithm>

#include "tessera/ops.hpp"

namespace tessera {

namespace {

constexpr i64 kAlignment = 64;  // elements, as Megatron-Core lays out its buffers

i64 aligned(i64 elements) { return (elements + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

GradientBuffer::GradientBuffer(const std::vector<ModelParts::Entry>& parameters,
                               DType dtype,
                               i64 bucket_elements,
                               Device& device) {
  struct Range {
    i64 begin = 0, end = 0;
    std::vector<int> layers;
  };
  std::vector<Range> ranges;
  std::vector<i64> starts(parameters.size());
  i64 end = 0;
  for (std::size_t i = parameters.size(); i-- > 0;) {
    if (ranges.empty() || ranges.back().end - ranges.back().begin >= bucket_elements) {
      ranges.push_back({end, end, {}});
    }
    starts[i] = end;
    end = aligned(end + parameters[i].parameter->local.elements());
    Range& range = ranges.back();
    range.end = end;
    for (const int layer : parameters[i].layers) {
      if (std::ranges::find(range.layers, layer) == range.layers.end()) {
        range.layers.push_back(layer);
      }
    }
  }
  flat_ =
      Tensor::allocate(device, device.pool(), device.stream(), {end}, dtype, Category::gradients);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    Parameter& parameter = *parameters[i].parameter;
    parameter.grad = flat_.slice(0, starts[i], parameter.local.elements()).view(parameter.local);
  }
  for (Range& range : ranges) {
    buckets_.push_back(
        {flat_.slice(0, range.begin, range.end - range.begin), std::move(range.layers)});
  }
}

std::vector<std::vector<int>> GradientBuffer::bucket_layers() const {
  std::vector<std::vector<int>> layers;
  for (const Bucket& bucket : buckets_) layers.push_back(bucket.layers);
  return layers;
}

void GradientBuffer::zero(Context& cx) const {
  FillArgs args{flat_.arg(), 0};
  ops::run(cx, args);
}

}  // namespace tessera
