#include "kernel/plugin/named_kernel.hpp"

#include <fmt/format.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "sdk/src/shared/floating_point_guard.hpp"
#include "tessera/error.hpp"

namespace tessera {

namespace {

// A kernel's name in messages. The component that launched it is named further up.
struct KernelName {
  KernelName(const std::string& operation, const PluginOrigin& origin)
      : text(fmt::format("a kernel of {}, operation \"{}\"", origin.text(), operation)) {}
  std::string text;
  std::atomic<bool> told = false;  // of another rounding that it left behind
};

template <class F>
decltype(auto) call_kernel(KernelName& name, F&& f) {
  const FloatingPointGuard guard(FloatingPointGuard::During::call, name.text, "", &name.told);
  try {
    return std::forward<F>(f)();
  } catch (...) {
    error_in_flight().add(ErrorFrame::Kind::kernel, name.text).raise();
  }
}

}  // namespace

Kernel named_kernel(Kernel kernel, const PluginOrigin& origin) {
  if (origin.builtin()) return kernel;
  const auto name = std::make_shared<KernelName>(kernel.operation, origin);
  if (kernel.prepare) {
    kernel.prepare = [name, inner = std::move(kernel.prepare)](const void* args) {
      return call_kernel(*name, [&] { return inner(args); });
    };
  }
  kernel.launch = [name, inner = std::move(kernel.launch)](
                      const void* args, void* workspace, Stream& stream) {
    call_kernel(*name, [&] { inner(args, workspace, stream); });
  };
  return kernel;
}

}  // namespace tessera
