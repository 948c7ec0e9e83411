#pragma once
#include <memory>
#include <string>
#include <vector>

#include "tessera/context.hpp"
#include "tessera/device/core_ops.hpp"
#include "tessera/parameter.hpp"

namespace tessera::testing {

/// What a test needs to call ops:: on a device outside of any model: a context without a mesh, and
/// tensors with values.
class TESSERA_API Workbench {
 public:
  explicit Workbench(Device& device);
  ~Workbench();
  Workbench(const Workbench&) = delete;
  Workbench& operator=(const Workbench&) = delete;

  /// A context on the device's compute stream and pool; it records nothing until `tape` is set.
  Context& context() { return context_; }

  Tensor tensor(const Shape& shape, DType dtype, const std::vector<double>& values);
  /// Uniform in [low, high), the same values on every device.
  Tensor random(const Shape& shape, DType dtype, u64 seed, double low = -1, double high = 1);
  /// main and compute share memory; grad is zero.
  std::unique_ptr<Parameter> parameter(std::string name, const Tensor& value);

 private:
  CoreOps ops_;
  Context context_;
};

/// The values, row-major. Waits for the device.
TESSERA_API std::vector<double> read(const Tensor& tensor);
TESSERA_API void write(const Tensor& tensor, const std::vector<double>& values);

}  // namespace tessera::testing
