#include "workbench.hpp"

#include "operand.hpp"

namespace tessera::testing {

Workbench::Workbench(Device& device) : ops_(device) {
  context_.device = &device;
  context_.ops = &ops_;
  context_.stream = &device.stream();
  context_.pool = &device.pool();
}

Workbench::~Workbench() = default;

Tensor Workbench::tensor(const Shape& shape, DType dtype, const std::vector<double>& values) {
  Tensor made = context_.empty(shape, dtype);
  write(made, values);
  return made;
}

Tensor Workbench::random(const Shape& shape, DType dtype, u64 seed, double low, double high) {
  return tensor(shape, dtype, Operand::random(shape, dtype, seed, low, high).values);
}

std::unique_ptr<Parameter> Workbench::parameter(std::string name, const Tensor& value) {
  auto made = std::make_unique<Parameter>();
  made->name = std::move(name);
  made->logical = value.shape();
  made->local = value.shape();
  made->main = value;
  made->compute = value;
  made->grad = tensor(value.shape(),
                      value.dtype(),
                      std::vector<double>(static_cast<std::size_t>(value.elements())));
  return made;
}

std::vector<double> read(const Tensor& tensor) {
  const i64 size = dtype_size(tensor.dtype());
  std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.bytes()));
  tensor.device().read(tensor, bytes.data());
  std::vector<double> values(static_cast<std::size_t>(tensor.elements()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = decode(bytes.data() + static_cast<i64>(i) * size, tensor.dtype());
  }
  return values;
}

void write(const Tensor& tensor, const std::vector<double>& values) {
  require(static_cast<i64>(values.size()) == tensor.elements(),
          "{} values for a tensor {}",
          values.size(),
          tensor);
  const i64 size = dtype_size(tensor.dtype());
  std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.bytes()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    encode(values[i], tensor.dtype(), bytes.data() + static_cast<i64>(i) * size);
  }
  tensor.device().write(tensor, bytes.data());
}

}  // namespace tessera::testing
