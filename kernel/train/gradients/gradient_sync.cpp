#include "kernel/train/gradients/gradient_sync.hpp"

#include <algorithm>
#include <utility>

#include "tessera/error.hpp"
#include "tessera/ops.hpp"

namespace tessera {

namespace {

constexpr i64 kAlignment = 64;  // elements, as Megatron-Core lays out its buffers

i64 aligned(i64 elements) { return (elements + kAlignment - 1) / kAlignment * kAlignment; }

// A bucket while parameters are dealt to buckets.
struct Open {
  bool expert = false;
  std::vector<Axis> partial;
  bool shared = false;
  i64 elements = 0;
  std::vector<int> layers;

  bool takes(const ParameterLayout& layout, i64 bucket_elements) const {
    return !shared && !layout.shared() && expert == layout.expert() &&
           partial == layout.partial() && elements < bucket_elements;
  }
};

}  // namespace

GradientSync::GradientSync(const std::vector<ModelParts::Entry>& parameters,
                           DType dtype,
                           i64 bucket_elements,
                           const Mesh& mesh,
                           Device& device)
    : pipeline_(&mesh.group(Axis::pipeline)) {
  std::vector<Open> open;
  struct Place {
    std::size_t bucket;
    i64 begin;
  };
  std::vector<Place> places(parameters.size());
  for (std::size_t i = parameters.size(); i-- > 0;) {
    const ParameterLayout& layout = parameters[i].parameter->layout;
    const auto takes = [&](const Open& bucket) { return bucket.takes(layout, bucket_elements); };
    auto found = std::ranges::find_if(open, takes);
    if (found == open.end()) {
      open.push_back({layout.expert(), layout.partial(), layout.shared(), 0, {}});
      found = open.end() - 1;
    }
    places[i] = {static_cast<std::size_t>(found - open.begin()), found->elements};
    found->elements = aligned(found->elements + parameters[i].parameter->local.elements());
    for (const int layer : parameters[i].layers) {
      if (std::ranges::find(found->layers, layer) == found->layers.end()) {
        found->layers.push_back(layer);
      }
    }
  }

  i64 end = 0;
  for (const Open& bucket : open) end += bucket.elements;
  flat_ =
      Tensor::allocate(device, device.pool(), device.stream(), {end}, dtype, Category::gradients);
  i64 begin = 0;
  for (Open& from : open) {
    Bucket& bucket = buckets_.emplace_back();
    bucket.flat = flat_.slice(0, begin, from.elements);
    begin += from.elements;
    bucket.layers = std::move(from.layers);
    for (const Axis axis : from.partial) bucket.partial.push_back(&mesh.group(axis));
    bucket.replicas = from.expert ? &mesh.group(Axis::expert_data) : &mesh.data_context();
    bucket.name = fmt::format("gradients bucket {}", buckets_.size() - 1);
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    Parameter& parameter = *parameters[i].parameter;
    parameter.grad = buckets_[places[i].bucket]
                         .flat.slice(0, places[i].begin, parameter.local.elements())
                         .view(parameter.local);
    if (parameter.layout.shared()) shared_.push_back(&parameter);
  }
  // Stages declare in different orders.
  std::ranges::sort(shared_, {}, &Parameter::name);
}

std::vector<std::vector<int>> GradientSync::bucket_layers() const {
  std::vector<std::vector<int>> layers;
  for (const Bucket& bucket : buckets_) layers.push_back(bucket.layers);
  return layers;
}

void GradientSync::zero(Context& cx) const {
  FillArgs args{flat_.arg(), 0};
  ops::run(cx, args);
}

void GradientSync::reduce(Context& cx, int index) {
  const Bucket& bucket = buckets_.at(static_cast<std::size_t>(index));
  for (ProcessGroup* group : bucket.partial) {
    group->all_reduce(*cx.stream, bucket.flat, ReduceOp::sum, bucket.name).wait(*cx.stream);
  }
  started_.push_back(
      bucket.replicas->all_reduce(*cx.stream, bucket.flat, ReduceOp::sum, bucket.name));
}

void GradientSync::finish(Context& cx) {
  for (Work& work : started_) work.wait(*cx.stream);
  started_.clear();
  sum_shared(cx);
}

// The tensor of every holder, in stage order; for this rank `own` itself, not a copy.
std::vector<Tensor> GradientSync::gather(Context& cx,
                                         const Parameter& parameter,
                                         const Tensor& own) const {
  std::vector<Tensor> all;
  std::vector<ProcessGroup::Part> sends, receives;
  for (const int holder : parameter.layout.holders()) {
    if (holder == pipeline_->index()) {
      all.push_back(own);
      continue;
    }
    all.push_back(cx.empty(own.shape(), own.dtype()));
    sends.push_back({holder, own});
    receives.push_back({holder, all.back()});
  }
  pipeline_->exchange(*cx.stream, sends, receives, parameter.name).wait(*cx.stream);
  return all;
}

void GradientSync::sum_shared(Context& cx) const {
  Context for_copies = cx;
  for_copies.category = Category::communication;
  for (const Parameter* parameter : shared_) {
    const Tensor& gradient = parameter->grad;
    const std::vector<Tensor> all = gather(for_copies, *parameter, gradient);
    Tensor sum = all[0];
    for (std::size_t i = 1; i < all.size(); ++i) {
      // The last sum lands in the gradient itself, which is read before it is overwritten.
      const Tensor to = i + 1 == all.size() ? gradient : for_copies.empty(sum.shape(), sum.dtype());
      AddArgs args{sum.arg(), all[i].arg(), to.arg()};
      ops::run(cx, args);
      sum = to;
    }
  }
}

void GradientSync::check_shared_equal(Context& cx) const {
  for (const Parameter* parameter : shared_) {
    const std::vector<int>& holders = parameter->layout.holders();
    std::vector<std::vector<std::byte>> bytes;
    for (const Tensor& copy : gather(cx, *parameter, parameter->main)) {
      bytes.emplace_back(static_cast<std::size_t>(copy.bytes()));
      cx.device->read(copy, bytes.back().data());
    }
    for (std::size_t i = 1; i < bytes.size(); ++i) {
      require(bytes[i] == bytes[0],
              "the copies of \"{}\" on pipeline ranks {} and {} differ: their gradients were not "
              "summed",
              parameter->name,
              holders[0],
              holders[i]);
    }
  }
}

}  // namespace tessera
