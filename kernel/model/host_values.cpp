#include "kernel/model/host_values.hpp"

#include "tessera/error.hpp"

namespace tessera {

namespace {

template <class F>
auto with_floating(const Tensor& tensor, F&& f) {
  switch (tensor.dtype()) {
    case DType::fp64:
      return f(double{});
    case DType::fp32:
      return f(float{});
    default:
      fail("host values are fp32 or fp64, not {}", tensor);
  }
}

}  // namespace

std::vector<double> read_values(Device& device, const Tensor& tensor) {
  return with_floating(tensor, [&](auto zero) {
    std::vector<decltype(zero)> raw(static_cast<std::size_t>(tensor.elements()));
    device.read(tensor, raw.data());
    return std::vector<double>(raw.begin(), raw.end());
  });
}

void write_values(Device& device, const Tensor& tensor, const std::vector<double>& values) {
  require(static_cast<i64>(values.size()) == tensor.elements(),
          "{} values for a tensor {}",
          values.size(),
          tensor);
  with_floating(tensor, [&](auto zero) {
    const std::vector<decltype(zero)> raw(values.begin(), values.end());
    device.write(tensor, raw.data());
    return 0;
  });
}

}  // namespace tessera
