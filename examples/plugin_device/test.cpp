// The device against the contract of all devices, and its kernel against that of `reference`.
#include <cstdio>
#include <exception>
#include <tessera/ops.hpp>
#include <tessera/testing/core_op_cases.hpp>
#include <tessera/testing/device_check.hpp>
#include <tessera/testing/local_world.hpp>

int main(int argc, char** argv) try {
  using namespace tessera;
  using namespace tessera::testing;
  const std::vector<std::filesystem::path> folders(argv + 1, argv + argc);  // of plugins
  const LocalWorld world(folders);
  const auto make = [&](const char* name, DeviceArguments arguments) {
    if (!arguments.kernels) arguments.kernels = world.kernels();
    return world.make<Device>(name, arguments);
  };
  std::string wrong;
  for (const u64 seed : {0, 1}) {  // inline, and in an order that only events bind
    wrong += device_check([&](DeviceArguments arguments) {
      arguments.deferred_seed = seed;
      return make("borrowed", arguments);
    });
  }
  const auto own = make("borrowed", {}), reference = make("reference", {});
  for (const DType dtype : {DType::fp32, DType::fp16, DType::bf16}) {
    int cases = 0;
    for (const OpCase& op : core_op_cases(dtype)) {
      if (op.operation != GeluArgs::kName) continue;
      wrong += op_check(*own, *reference, op);
      ++cases;
    }
    if (cases == 0) wrong += "there is no case for the kernel of one dtype\n";
  }
  std::fputs(wrong.c_str(), stderr);
  return wrong.empty() ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
