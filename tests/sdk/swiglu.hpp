#pragma once
#include <tessera/ops.hpp>
#include <tessera/parallel_for.hpp>
#include <tessera/plugin.hpp>

#include <cmath>

namespace tessera {

/// A fused operation that a plugin brings: out [n, f] = silu(gate) · up of x [n, 2f], which holds
/// gate and up side by side (Shazeer 2020, "GLU Variants", SwiGLU).
struct SwigluArgs {
  static constexpr std::string_view kName = "test.swiglu";
  static constexpr int kTensors = 2, kOutputs = 1;
  TensorArg x, out;
  static void infer(SwigluArgs& args) {
    require(args.x.rank == 2 && args.x.shape[1] % 2 == 0,
            "swiglu: x must be [n, 2f], not of rank {} with {} features",
            args.x.rank,
            args.x.shape[1]);
    infer_output(args.out, {args.x.shape[0], args.x.shape[1] / 2}, args.x.dtype, kName);
  }
};

struct SwigluBackwardArgs {
  static constexpr std::string_view kName = "test.swiglu_backward";
  static constexpr int kTensors = 3, kOutputs = 1;
  TensorArg grad, x, out;
  static void infer(SwigluBackwardArgs& args) {
    infer_output(args.out, {args.x.shape[0], args.x.shape[1]}, args.x.dtype, kName);
  }
};

/// The operation with its gradient, as a layer calls it.
class Swiglu {
 public:
  explicit Swiglu(const BuildContext& build)
      : forward_(build.operation<SwigluArgs>()), backward_(build.operation<SwigluBackwardArgs>()) {}

  explicit Swiglu(const Device& device) : forward_(device), backward_(device) {}

  Tensor operator()(Context& cx, const Tensor& x) const {
    SwigluArgs args;
    args.x = x.arg();
    Tensor y = ops::run(cx, forward_, args)[0];
    if (cx.recording()) {
      const Tensor inputs[] = {x};
      Tensor* outputs[] = {&y};
      cx.tape->record("swiglu", inputs, outputs, [x, op = backward_](Context& bx, Gradients& g) {
        SwigluBackwardArgs back;
        const Tensor grad = g.output(0);
        back.grad = grad.arg();
        back.x = x.arg();
        g.input(0, ops::run(bx, op, back)[0]);
      });
    }
    return y;
  }

 private:
  Operation<SwigluArgs> forward_;
  Operation<SwigluBackwardArgs> backward_;
};

namespace swiglu_kernels {

template <class T>
void forward(const TensorArg& x, const TensorArg& out) {
  const i64 f = out.shape[1];
  parallel_for(out.shape[0], 16, [&](i64 begin, i64 end) {
    for (i64 row = begin; row < end; ++row) {
      const T* in = x.as<T>() + row * 2 * f;
      for (i64 j = 0; j < f; ++j) {
        out.as<T>()[row * f + j] = in[j] / (1 + std::exp(-in[j])) * in[f + j];
      }
    }
  });
}

template <class T>
void backward(const TensorArg& grad, const TensorArg& x, const TensorArg& out) {
  const i64 f = grad.shape[1];
  parallel_for(grad.shape[0], 16, [&](i64 begin, i64 end) {
    for (i64 row = begin; row < end; ++row) {
      const T* in = x.as<T>() + row * 2 * f;
      T* to = out.as<T>() + row * 2 * f;
      for (i64 j = 0; j < f; ++j) {
        const T g = grad.as<T>()[row * f + j], sigmoid = 1 / (1 + std::exp(-in[j]));
        to[j] = g * in[f + j] * sigmoid * (1 + in[j] * (1 - sigmoid));
        to[f + j] = g * in[j] * sigmoid;
      }
    }
  });
}

}  // namespace swiglu_kernels

inline void register_swiglu(Registrar& registrar) {
  registrar.add_kernel("host", make_kernel<SwigluArgs>(+[](const SwigluArgs& a) {
                         a.x.dtype == DType::fp64 ? swiglu_kernels::forward<double>(a.x, a.out)
                                                  : swiglu_kernels::forward<float>(a.x, a.out);
                       }));
  registrar.add_kernel("host", make_kernel<SwigluBackwardArgs>(+[](const SwigluBackwardArgs& a) {
                         a.x.dtype == DType::fp64
                             ? swiglu_kernels::backward<double>(a.grad, a.x, a.out)
                             : swiglu_kernels::backward<float>(a.grad, a.x, a.out);
                       }));
}

}  // namespace tessera
