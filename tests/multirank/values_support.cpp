#include "values_support.hpp"

#include <bit>
#include <cstring>

#include "tessera/error.hpp"

namespace tessera::testing {

namespace {

u64 mix(u64 x) {  // splitmix64
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// Calls f with a value of the C++ type that stores this element type; bf16 is its upper bits.
template <class F>
void with_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::fp64:
      return f(double{});
    case DType::fp32:
      return f(float{});
    case DType::fp16:
      return f(_Float16{});
    case DType::bf16:
      return f(std::uint16_t{});
    case DType::i64:
      return f(i64{});
    case DType::i32:
      return f(i32{});
    case DType::u8:
    case DType::boolean:
      return f(u8{});
  }
}

}  // namespace

Tensor filled(Device& device, i64 elements, DType dtype, const std::function<double(i64)>& value) {
  Tensor tensor = Tensor::allocate(
      device, device.pool(), device.stream(), {elements}, dtype, Category::communication);
  with_type(dtype, [&]<class T>(T) {
    std::vector<T> host(static_cast<std::size_t>(elements));
    for (i64 i = 0; i < elements; ++i) {
      T& element = host[static_cast<std::size_t>(i)];
      if (dtype == DType::bf16) {  // values of tests are exact in it
        const u32 bits = std::bit_cast<u32>(static_cast<float>(value(i)));
        element = static_cast<T>(bits >> 16);
      } else {
        element = static_cast<T>(value(i));
      }
    }
    device.write(tensor, host.data());
  });
  return tensor;
}

std::vector<double> values_of(const Tensor& tensor) {
  std::vector<double> values(static_cast<std::size_t>(tensor.elements()));
  with_type(tensor.dtype(), [&]<class T>(T) {
    std::vector<T> host(values.size());
    tensor.device().read(tensor, host.data());
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = tensor.dtype() == DType::bf16
                      ? std::bit_cast<float>(static_cast<u32>(host[i]) << 16)
                      : static_cast<double>(host[i]);
    }
  });
  return values;
}

void expect_values(const Tensor& tensor,
                   const std::function<double(i64)>& expected,
                   const std::string& what) {
  const std::vector<double> values = values_of(tensor);
  for (i64 i = 0; i < tensor.elements(); ++i) {
    const double is = values[static_cast<std::size_t>(i)], should = expected(i);
    require(
        is == should, "{}: {}: element {} is {}, expected {}", what, tensor.text(), i, is, should);
  }
}

double small_value(i64 rank, i64 i, u64 salt, DType dtype) {
  const u64 bits = mix(mix(static_cast<u64>(rank) * 7919 + salt) + static_cast<u64>(i));
  if (dtype == DType::boolean) return static_cast<double>(bits % 2);
  if (dtype == DType::u8) return static_cast<double>(bits % 16);
  return static_cast<double>(bits % 17) - 8;
}

float random_value(i64 rank, i64 i, u64 salt) {
  const u64 bits = mix(mix(static_cast<u64>(rank) * 104729 + salt) + static_cast<u64>(i));
  return static_cast<float>(bits >> 40) / static_cast<float>(1 << 23) - 1.0F;
}

}  // namespace tessera::testing
