// A device to start from: the kernels of `reference`, one of which is replaced.
#include <cmath>
#include <tessera/device/host_device.hpp>
#include <tessera/error.hpp>
#include <tessera/ops.hpp>
#include <tessera/parallel_for.hpp>
#include <tessera/plugin.hpp>
#include <tessera/with_type.hpp>

namespace {

using namespace tessera;

// Computes in single precision, where `reference` uses double. x / (1 + e^-2u) is the tanh form,
// but does not cancel where u is far below 0.
void gelu(const GeluArgs& args) {
  with_floating(args.kName, args.x.dtype, [&]<class T>(T) {
    const auto* x = args.x.as<const T>();
    auto* out = args.out.as<T>();
    parallel_for(args.x.elements(), 1 << 12, [=](i64 begin, i64 end) {
      constexpr float kTwoRoot = 1.5957691F;  // 2 sqrt(2 / pi)
      for (i64 i = begin; i < end; ++i) {
        const auto v = static_cast<float>(x[i]);
        out[i] = static_cast<T>(v / (1 + std::exp(-kTwoRoot * (v + 0.044715F * v * v * v))));
      }
    });
  });
}

std::vector<Kernel> kernels(const DeviceArguments& arguments) {
  std::vector<Kernel> all;
  if (arguments.kernels) all = arguments.kernels("reference", kHostMemory);
  if (all.empty()) {
    fail_config(
        "device.type = \"borrowed\" takes kernels of the plugin \"reference\", which is "
        "not in plugins.path");
  }
  std::erase_if(all, [](const Kernel& kernel) { return kernel.operation == GeluArgs::kName; });
  all.push_back(make_kernel<GeluArgs>(&gelu, {DType::fp32, DType::fp16, DType::bf16}));
  return all;
}

class Borrowed final : public HostDevice {
 public:
  using Config = NoConfig;
  Borrowed(const Config&, const DeviceArguments& arguments)
      : HostDevice("borrowed", arguments, kernels(arguments)) {}
};

}  // namespace

TESSERA_PLUGIN(borrowed, "0.1.0", "A device") {
  registrar.add<Device, Borrowed>("borrowed", "reference kernels, and a GELU of its own");
}
