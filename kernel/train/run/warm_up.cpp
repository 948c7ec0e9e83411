#include "kernel/train/run/warm_up.hpp"

#include <cstring>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kernel/dry/dry_rank.hpp"
#include "kernel/train/execution/evaluation.hpp"
#include "kernel/train/execution/train_step.hpp"
#include "tessera/ops/elementwise.hpp"

namespace tessera {

namespace {

// Only the place of an address within its line counts: kernels are chosen by alignment.
constexpr i64 kLine = 256;

// Arguments of a launch over absent hardware. Each launch is kept once, whatever its addresses.
class Launches {
 public:
  void add(const Kernel& kernel, const void* args) {
    std::string bytes(static_cast<const char*>(args), static_cast<std::size_t>(kernel.args_bytes));
    auto* tensors = reinterpret_cast<TensorArg*>(bytes.data());
    for (int i = 0; i < kernel.tensors; ++i) {
      const auto address = reinterpret_cast<std::uintptr_t>(tensors[i].address);
      // Not 0, which is an absent tensor.
      if (address != 0) {
        tensors[i].address = reinterpret_cast<void*>(kLine + address % kLine);
      }
    }
    all_.emplace(kernel.operation, std::move(bytes));
  }

  void run(Device& device) {
    for (const auto& [operation, bytes] : all_) {
      const Kernel* kernel = device.find(operation);
      require(kernel, "device \"{}\" has lost operation \"{}\"", device.name(), operation);
      std::string args = bytes;
      std::vector<Tensor> scratch;
      auto* tensors = reinterpret_cast<TensorArg*>(args.data());
      for (int i = 0; i < kernel->tensors; ++i) {
        if (!tensors[i]) continue;
        scratch.push_back(zeros(device, extent(tensors[i]) + kLine));
        auto* begin = static_cast<std::byte*>(scratch.back().arg().address);
        tensors[i].address = begin + reinterpret_cast<std::uintptr_t>(tensors[i].address) % kLine;
      }
      device.launch(device.stream(), *kernel, args.data(), device.pool());
    }
    device.synchronize(device.stream());
  }

 private:
  // Bytes from the first element to the end of the last one.
  static i64 extent(const TensorArg& tensor) {
    i64 last = 0;
    for (int i = 0; i < tensor.rank; ++i) {
      if (tensor.shape[i] == 0) return 0;
      last += (tensor.shape[i] - 1) * tensor.strides[i];
    }
    return (last + 1) * dtype_size(tensor.dtype);
  }

  static Tensor zeros(Device& device, i64 bytes) {
    FillArgs args;
    const Tensor tensor = Tensor::allocate(
        device, device.pool(), device.stream(), {bytes}, DType::u8, Category::workspace);
    args.out = tensor.arg();
    Operation<FillArgs>(device).launch(device.stream(), device.pool(), args);
    return tensor;
  }

  std::set<std::pair<std::string, std::string>> all_;  // operation and arguments
};

Connections warm_up(const RunSetup& setup, i64 rank, const std::shared_ptr<Device>& device) {
  Launches launches;
  Connections connections;
  DryEvents events;
  events.launched = [&](const Kernel& kernel, const void* args) { launches.add(kernel, args); };
  events.collectives.started = [&](u64, const GroupSpec& group, const Collective& collective) {
    connections.saw(group, collective);
  };
  {
    const Rank dry = dry_rank(setup.layout, rank, device, std::move(events));
    PlacedModel model(dry, setup);
    TrainStep step(model);
    step.run();
    step.losses();
    const i64 samples = setup.config->validation.samples;
    if (setup.config->validation.every_steps > 0) Evaluation(model).validate(samples);
  }
  launches.run(*device);
  device->reset_peaks();
  return connections;
}

}  // namespace

WarmUp warm_up_of(const RunSetup& setup) {
  return [&setup](i64 rank, const std::shared_ptr<Device>& device) {
    return warm_up(setup, rank, device);
  };
}

}  // namespace tessera
