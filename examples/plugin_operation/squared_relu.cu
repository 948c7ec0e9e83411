// The operation's kernels for NVIDIA GPUs: the device `cuda`. They are written with gpu.hpp, which
// an installed Tessera has.
#include <gpu.hpp>

#include "squared_relu.hpp"

namespace {

using namespace example;
namespace gpu = tessera::cuda;

constexpr int kThreads = 256;

template <class C>
__device__ C positive_part(C value) {
  return value < 0 ? C(0) : value;  // a NaN stays one
}

// An element a thread. 16-bit values are widened, and rounded once.
template <class T>
__global__ void forward(const T* x, T* out, i64 count) {
  const i64 i = static_cast<i64>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= count) return;
  const auto positive = positive_part(gpu::widen(x[i]));
  out[i] = gpu::narrow<T>(positive * positive);
}

template <class T>
__global__ void backward(const T* grad, const T* x, T* out, i64 count) {
  const i64 i = static_cast<i64>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= count) return;
  const auto slope = 2 * positive_part(gpu::widen(x[i]));
  out[i] = gpu::narrow<T>(slope * gpu::widen(grad[i]));
}

gpu::LaunchShape shape_for(i64 count) {
  return {.blocks = gpu::blocks_for(count, kThreads), .threads = kThreads};
}

// Enqueues and returns; an error of the kernel is found by whoever next waits for the stream.
void run(const SquaredReluArgs& a, void* /*workspace*/, Stream& stream) {
  gpu::with_floating(a.kName, a.x.dtype, [&]<class T>(T) {
    const i64 count = a.x.elements();
    gpu::launch(&forward<T>,
                shape_for(count),
                static_cast<cudaStream_t>(stream.native()),
                a.x.as<const T>(),
                a.out.as<T>(),
                count);
  });
}

void run(const SquaredReluBackwardArgs& a, void* /*workspace*/, Stream& stream) {
  gpu::with_floating(a.kName, a.x.dtype, [&]<class T>(T) {
    const i64 count = a.x.elements();
    gpu::launch(&backward<T>,
                shape_for(count),
                static_cast<cudaStream_t>(stream.native()),
                a.grad.as<const T>(),
                a.x.as<const T>(),
                a.out.as<T>(),
                count);
  });
}

template <class Args>
Kernel kernel_of() {
  return make_kernel<Args>([](const Args&) { return LaunchRequirements{}; },  // no workspace
                           [](const Args& a, void* w, Stream& s) { run(a, w, s); },
                           kFloatingDTypes);
}

}  // namespace

std::vector<tessera::Kernel> example::squared_relu_gpu_kernels() {
  return {kernel_of<SquaredReluArgs>(), kernel_of<SquaredReluBackwardArgs>()};
}
