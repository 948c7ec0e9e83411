#pragma once
#include <array>
#include <concepts>
#include <cstring>
#include <functional>
#include <iterator>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "tessera/base/operation_args.hpp"
#include "tessera/device/device.hpp"
#include "tessera/error.hpp"

namespace tessera {

/// What a kernel needs before a launch with given arguments.
struct LaunchRequirements {
  i64 workspace_bytes = 0;
  /// True when this call set something up (created a library primitive): not allowed in a capture.
  bool first_use = false;
  /// Size of an output whose form is the kernel's own (PackWeightArgs); 0: it has no such form.
  i64 output_bytes = 0;
};

/// One operation's implementation on one device, type-erased. `prepare` may create and keep
/// library objects; `launch` allocates nothing and reads no values: whatever changes between steps
/// is read from device memory by the kernel itself.
struct Kernel {
  std::string operation;
  i64 args_bytes = 0;
  int tensors = 0;  ///< number of TensorArg that the arguments start with
  int outputs = 0;  ///< number of them, at the end, that are written (in place: read too)
  const TensorRule* rules = nullptr;  ///< one for each tensor; nullptr: their dtypes are their own
  DTypes dtypes = kAllDTypes;         ///< of the data, that it implements
  /// Its products of fp32 tensors round each factor to TF32 (10 bits): their peak is another.
  bool tf32 = false;
  Effort (*effort)(const void* args) = nullptr;
  std::function<LaunchRequirements(const void* args)> prepare;
  std::function<void(const void* args, void* workspace, Stream& stream)> launch;
};

/// For infer: an output without an address is described here (dense), for ops::run to allocate; one
/// with an address is checked. Throws Error naming `operation` and both shapes.
TESSERA_API void infer_output(TensorArg& out,
                              const Shape& shape,
                              DType dtype,
                              std::string_view operation);

/// Throws Error when the tensors' dtypes break the operation's rules, or the kernel does not have
/// them. `device` is for the error. Reads no address, so a dry run finds what a run would.
TESSERA_API void check_types(const Kernel& kernel, const void* args, std::string_view device);

namespace detail {

template <class Args>
Kernel kernel_of(const DTypes& dtypes) {
  Kernel kernel;
  if constexpr (check_operation<Args>()) {
    kernel.operation = Args::kName;
    kernel.args_bytes = sizeof(Args);
    kernel.tensors = Args::kTensors;
    kernel.outputs = Args::kOutputs;
    kernel.dtypes = dtypes;
    if constexpr (requires { Args::kRules; }) kernel.rules = Args::kRules;
    kernel.effort = [](const void* args) {
      if constexpr (requires(const Args& a) { Args::effort(a); }) {
        return Args::effort(*static_cast<const Args*>(args));
      } else {
        return effort_of_tensors(static_cast<const TensorArg*>(args), Args::kTensors);
      }
    };
  }
  return kernel;
}

}  // namespace detail

/// Wraps a plain function as a kernel: `make_kernel<AxpyArgs>(&axpy)`. `dtypes`: see Kernel.
template <class Args>
Kernel make_kernel(void (*run)(const Args&), const DTypes& dtypes = kAllDTypes) {
  Kernel kernel = detail::kernel_of<Args>(dtypes);
  kernel.launch = [run](const void* args, void*, Stream&) { run(*static_cast<const Args*>(args)); };
  return kernel;
}

/// The same for a kernel with workspace or library set-up. `prepare(const Args&) ->
/// LaunchRequirements`, `launch(const Args&, void* workspace, Stream&)`.
template <class Args, class Prepare, std::invocable<const Args&, void*, Stream&> Launch>
Kernel make_kernel(Prepare prepare, Launch launch, const DTypes& dtypes = kAllDTypes) {
  Kernel kernel = detail::kernel_of<Args>(dtypes);
  kernel.prepare = [prepare = std::move(prepare)](const void* args) -> LaunchRequirements {
    return prepare(*static_cast<const Args*>(args));
  };
  kernel.launch = [launch = std::move(launch)](const void* args, void* workspace, Stream& stream) {
    launch(*static_cast<const Args*>(args), workspace, stream);
  };
  return kernel;
}

/// A handle to an operation on one device, resolved by name when a component is built.
template <class Args>
class Operation {
 public:
  Operation() = default;
  explicit Operation(const Device& device)
      : kernel_(device.find(detail::operation_name<Args>())), device_(device.name()) {}
  /// False where the device lacks it: use a composition of others, or let launch throw.
  bool available() const { return kernel_ != nullptr; }
  /// Enqueues it. Outputs are already allocated. Throws Error as check_types does.
  void launch(Stream& stream, Pool& pool, const Args& args) const {
    require(available(),
            "the device \"{}\" has no operation \"{}\" and there is no composition for it",
            device_,
            detail::operation_name<Args>());
    check_types(*kernel_, &args, device_);
    stream.device().launch(stream, *kernel_, &args, pool);
  }

 private:
  const Kernel* kernel_ = nullptr;
  std::string device_ = "none";
};

template <OperationArgs... Args>
struct OperationList;

namespace detail {
template <class... Lists>
struct Joined {
  using List = OperationList<>;
};
template <class... Args>
struct Joined<OperationList<Args...>> {
  using List = OperationList<Args...>;
};
template <class... First, class... Second, class... Rest>
struct Joined<OperationList<First...>, OperationList<Second...>, Rest...>
    : Joined<OperationList<First..., Second...>, Rest...> {};
}  // namespace detail

/// Operations by the types of their arguments.
template <OperationArgs... Args>
struct OperationList {
  static constexpr std::size_t kSize = sizeof...(Args);
  template <class Wanted>
  static constexpr bool contains = (std::is_same_v<Wanted, Args> || ...);
  static constexpr std::array<std::string_view, kSize> names() { return {Args::kName...}; }
  /// This list without the operations of `Other`.
  template <class Other>
  using Without = typename detail::Joined<
      std::conditional_t<Other::template contains<Args>, OperationList<>, OperationList<Args>>...>::
      List;
  /// Calls f.template operator()<Args>() for each, in order.
  template <class F>
  static void for_each(F&& f) {
    (f.template operator()<Args>(), ...);
  }
};

/// A handle to each operation of a list. They are bases, not a std::tuple, whose type compilers
/// spell once an element in every source that sees it.
template <class List>
class OperationHandles;

template <OperationArgs... Args>
class OperationHandles<OperationList<Args...>> : Operation<Args>... {
 public:
  explicit OperationHandles(const Device& device) : Operation<Args>(device)... {}
  template <class Wanted>
  const Operation<Wanted>& of() const {
    return *this;
  }
};

}  // namespace tessera
