#include "kernel/train/gradients/gradient_sync.hpp"

#include <algorithm>
#include <utility>

#include "tessera/error.hpp"
#include "tessera/ops.hpp"

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

GradientSync::GradientSync(ParameterMemory& memory,
                           const std::vector<ModelParts::Entry>& parameters,
                           const Mesh& mesh,
                           Device& device)
    : pipeline_(&mesh.group(Axis::pipeline)) {
  memory.allocate_gradients(device);
  flat_ = memory.gradients();
  for (const ParameterBucket& from : memory.buckets()) {
    const ParameterLayout& layout = from.members.front().parameter->layout;
    Bucket& bucket = buckets_.emplace_back();
    bucket.flat = flat_.slice(0, from.begin, from.elements);
    bucket.layers = layers_of(from, parameters);
    for (const Axis axis : layout.partial()) bucket.partial.push_back(&mesh.group(axis));
    bucket.replicas = &layout.replicas(mesh);
    bucket.name = fmt::format("gradients bucket {}", buckets_.size() - 1);
  }
  for (const ModelParts::Entry& entry : parameters) {
    if (entry.parameter->layout.shared()) shared_.push_back(entry.parameter.get());
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
