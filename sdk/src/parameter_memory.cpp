#include "tessera/parameter_memory.hpp"

#include <algorithm>

namespace tessera {

namespace {

i64 aligned(i64 elements) {
  return (elements + kParameterAlignment - 1) / kParameterAlignment * kParameterAlignment;
}

bool summed_alike(const ParameterLayout& a, const ParameterLayout& b) {
  return !a.shared() && !b.shared() && a.expert() == b.expert() && a.partial() == b.partial();
}

Tensor allocate(Device& device, i64 elements, DType dtype, Category category) {
  return Tensor::allocate(device, device.pool(), device.stream(), {elements}, dtype, category);
}

}  // namespace

ParameterMemory::ParameterMemory(std::span<Parameter* const> parameters, i64 bucket_elements) {
  for (std::size_t i = parameters.size(); i-- > 0;) {
    Parameter* parameter = parameters[i];
    auto bucket = std::ranges::find_if(buckets_, [&](const ParameterBucket& b) {
      return b.elements < bucket_elements &&
             summed_alike(b.members[0].parameter->layout, parameter->layout);
    });
    if (bucket == buckets_.end()) bucket = buckets_.insert(bucket, ParameterBucket{});
    bucket->members.push_back({parameter, bucket->elements});
    bucket->elements = aligned(bucket->elements + parameter->local.elements());
  }
  for (ParameterBucket& bucket : buckets_) {
    bucket.begin = elements_;
    elements_ += bucket.elements;
  }
}

void ParameterMemory::place(const Tensor& flat, Tensor Parameter::*form) const {
  for (const ParameterBucket& bucket : buckets_) {
    for (const auto& [parameter, begin] : bucket.members) {
      parameter->*form =
          flat.slice(0, bucket.begin + begin, parameter->local.elements()).view(parameter->local);
    }
  }
}

void ParameterMemory::allocate_values(Device& device, DType main, DType compute) {
  main_ = allocate(device, elements_, main, Category::parameters);
  if (compute != main) compute_ = allocate(device, elements_, compute, Category::parameters);
  place(main_, &Parameter::main);
  place(compute_.defined() ? compute_ : main_, &Parameter::compute);
}

void ParameterMemory::allocate_gradients(Device& device) {
  gradients_ = allocate(device, elements_, main_.dtype(), Category::gradients);
  place(gradients_, &Parameter::grad);
}

}  // namespace tessera
