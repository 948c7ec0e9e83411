#pragma once
#include <string>
#include <vector>

#include "tessera/operation.hpp"
#include "tessera/plugin.hpp"

namespace tessera {

/// A kernel for one device, or for "host".
struct DeviceKernel {
  std::string device;
  Kernel kernel;
};

/// Collects what one plugin registers. The host keeps it only when all of it is sound, so a plugin
/// that throws half-way leaves nothing behind.
class Collector : public Registrar {
 public:
  void add_kernel(std::string_view device, Kernel kernel) override;

  std::vector<ComponentInfo> components;
  std::vector<DeviceKernel> kernels;

 protected:
  void add_component(ComponentInfo info) override;
};

/// What is wrong with the description of a component's fields: a default out of its own range, a
/// name used twice. Throws Error naming the field.
void check_fields(const std::vector<FieldSpec>& fields);

}  // namespace tessera
