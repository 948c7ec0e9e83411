#pragma once
#include <array>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "tessera/device.hpp"
#include "tessera/error.hpp"

namespace tessera {

/// What a kernel needs before a launch with given arguments.
struct Setup {
  i64 workspace_bytes = 0;
  /// True when this call set something up (created a library primitive): not allowed in a capture.
  bool first_use = false;
};

/// One operation's implementation on one device, type-erased. `prepare` may create and keep
/// library objects; `launch` allocates nothing and reads no values: whatever changes between steps
/// is read from device memory by the kernel itself.
struct Kernel {
  std::string operation;
  i64 args_bytes = 0;
  int tensors = 0;  ///< the arguments start with so many TensorArg
  int outputs = 0;  ///< the last of which so many are written (those updated in place are read too)
  std::function<Setup(const void* args)> prepare;
  std::function<void(const void* args, void* workspace, Stream& stream)> launch;
};

/// The arguments of an operation are a standard-layout, trivially copyable struct that begins with
/// its tensors, inputs first, outputs last, followed by constants:
///
///     struct AxpyArgs {
///       static constexpr std::string_view kName = "axpy";
///       static constexpr int kTensors = 3, kOutputs = 1;
///       TensorArg x, y, out;
///       double a = 1;
///       static void infer(AxpyArgs& args);  // sets out's shape and dtype, throws on a mismatch
///     };
///
/// The operation's identity is its name, never its type: a template static has one address per
/// library.
template <class Args>
concept OperationArgs = std::is_trivially_copyable_v<Args> && std::is_standard_layout_v<Args> &&
    requires(Args& args) {
  { Args::kName } -> std::convertible_to<std::string_view>;
  { Args::kTensors } -> std::convertible_to<int>;
  { Args::kOutputs } -> std::convertible_to<int>;
  Args::infer(args);
};

/// For infer: an output without an address is described here (dense), for ops::run to allocate; one
/// with an address is checked. Throws Error naming `operation` and both shapes.
TESSERA_API void infer_output(TensorArg& out,
                              const Shape& shape,
                              DType dtype,
                              std::string_view operation);

/// Wraps a plain function as a kernel: `make_kernel<AxpyArgs>(&axpy)`.
template <OperationArgs Args>
Kernel make_kernel(void (*run)(const Args&)) {
  Kernel kernel;
  kernel.operation = Args::kName;
  kernel.args_bytes = sizeof(Args);
  kernel.tensors = Args::kTensors;
  kernel.outputs = Args::kOutputs;
  kernel.launch = [run](const void* args, void*, Stream&) { run(*static_cast<const Args*>(args)); };
  return kernel;
}

/// The same for a kernel with workspace or library set-up. `prepare(const Args&) -> Setup`,
/// `launch(const Args&, void* workspace, Stream&)`.
template <OperationArgs Args, class Prepare, class Launch>
Kernel make_kernel(Prepare prepare, Launch launch) {
  Kernel kernel;
  kernel.operation = Args::kName;
  kernel.args_bytes = sizeof(Args);
  kernel.tensors = Args::kTensors;
  kernel.outputs = Args::kOutputs;
  kernel.prepare = [prepare = std::move(prepare)](const void* args) -> Setup {
    return prepare(*static_cast<const Args*>(args));
  };
  kernel.launch = [launch = std::move(launch)](const void* args, void* workspace, Stream& stream) {
    launch(*static_cast<const Args*>(args), workspace, stream);
  };
  return kernel;
}

/// A handle to an operation on one device, resolved by name when a component is built.
template <OperationArgs Args>
class Operation {
 public:
  Operation() = default;
  explicit Operation(const Device& device)
      : kernel_(device.find(Args::kName)), device_(device.name()) {}
  /// False where the device lacks it: use a composition of others, or let launch throw.
  bool available() const { return kernel_ != nullptr; }
  /// Enqueues it. Outputs are already allocated.
  void launch(Stream& stream, Pool& pool, const Args& args) const {
    require(available(),
            "the device \"{}\" has no operation \"{}\" and there is no composition for it",
            device_,
            Args::kName);
    stream.device().launch(stream, *kernel_, &args, pool);
  }

 private:
  const Kernel* kernel_ = nullptr;
  std::string device_ = "none";
};

/// Operations by the types of their arguments.
template <OperationArgs... Args>
struct OperationList {
  using Handles = std::tuple<Operation<Args>...>;
  static constexpr std::size_t kSize = sizeof...(Args);
  template <class Wanted>
  static constexpr bool contains = (std::is_same_v<Wanted, Args> || ...);
  static constexpr std::array<std::string_view, kSize> names() { return {Args::kName...}; }
  static Handles handles(const Device& device) { return Handles(Operation<Args>(device)...); }
  /// Calls f.template operator()<Args>() for each, in order.
  template <class F>
  static void for_each(F&& f) {
    (f.template operator()<Args>(), ...);
  }
};

}  // namespace tessera
