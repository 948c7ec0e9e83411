#include "tessera/ops/matmul.hpp"
#include "elements.hpp"
#include "kernels.hpp"
#include "tessera/parallel_for.hpp"

namespace tessera::reference {
namespace {

struct Sizes {
  i64 m, n, k;
  explicit Sizes(const MatmulArgs& args)
      : m(args.a.shape[args.transpose_a ? 1 : 0]),
        n(args.b.shape[args.transpose_b ? 0 : 1]),
        k(args.a.shape[args.transpose_a ? 0 : 1]) {}
};

/// `inner` holds op(b) [k, n] as double: converted once, instead of once per row of the result.
template <class T, class S>
void matmul(const MatmulArgs& args, double* inner) {
  const Sizes size(args);
  const Matrix<const T> a(args.a), b(args.b);
  const Matrix<S> out(args.out);
  parallel_for(size.k, 8, [&](i64 begin, i64 end) {
    for (i64 p = begin; p < end; ++p) {
      for (i64 j = 0; j < size.n; ++j) {
        inner[p * size.n + j] = static_cast<double>(args.transpose_b ? b(j, p) : b(p, j));
      }
    }
  });
  parallel_for(size.m, 1, [&](i64 begin, i64 end) {
    std::vector<double> row(static_cast<std::size_t>(size.n));
    double* sum = row.data();
    for (i64 i = begin; i < end; ++i) {
      for (i64 j = 0; j < size.n; ++j) {
        sum[j] = args.accumulate ? static_cast<double>(out(i, j)) : 0.0;
      }
      for (i64 p = 0; p < size.k; ++p) {
        const double factor = static_cast<double>(args.transpose_a ? a(p, i) : a(i, p));
        const double* line = inner + p * size.n;
        for (i64 j = 0; j < size.n; ++j) sum[j] += factor * line[j];
      }
      for (i64 j = 0; j < size.n; ++j) {
        const double bias = args.bias ? static_cast<double>(args.bias.as<const T>()[j]) : 0.0;
        out(i, j) = static_cast<S>(sum[j] + bias);
      }
    }
  });
}

LaunchRequirements prepare_matmul(const MatmulArgs& args) {
  const Sizes size(args);
  return {.workspace_bytes = size.k * size.n * static_cast<i64>(sizeof(double))};
}

void launch_matmul(const MatmulArgs& args, void* workspace, Stream&) {
  with_floating(args.kName, args.a.dtype, [&]<class T>(T) {
    with_accumulator<T>(args.out.dtype,
                        [&]<class S>(S) { matmul<T, S>(args, static_cast<double*>(workspace)); });
  });
}

}  // namespace

Kernel make_matmul_kernel() { return make_kernel<MatmulArgs>(prepare_matmul, launch_matmul); }

template <>
void run(const ColumnSumArgs& args) {
  with_floating(args.kName, args.x.dtype, [&]<class T>(T) {
    const Matrix<const T> x(args.x);
    with_accumulator<T>(args.out.dtype, [&]<class S>(S) {
      S* out = args.out.as<S>();
      parallel_for(args.x.shape[1], 16, [&](i64 begin, i64 end) {
        for (i64 j = begin; j < end; ++j) {
          double sum = static_cast<double>(out[j]);
          for (i64 i = 0; i < args.x.shape[0]; ++i) sum += static_cast<double>(x(i, j));
          out[j] = static_cast<S>(sum);
        }
      });
    });
  });
}

Kernel make_linear_weight_kernel() {
  return make_kernel<LinearWeightArgs>(
      [](const LinearWeightArgs& args) { return prepare_matmul(args.product()); },
      [](const LinearWeightArgs& args, void* workspace, Stream& stream) {
        launch_matmul(args.product(), workspace, stream);
        run(args.sums());
      });
}

template <>
void run(const AddBiasArgs& args) {
  with_floating(args.kName, args.x.dtype, [&]<class T>(T) {
    const Matrix<const T> x(args.x);
    const Matrix<T> out(args.out);
    const T* bias = args.bias.as<const T>();
    parallel_for(args.x.shape[0], 16, [&](i64 begin, i64 end) {
      for (i64 i = begin; i < end; ++i) {
        for (i64 j = 0; j < args.x.shape[1]; ++j) {
          out(i, j) = static_cast<T>(static_cast<double>(x(i, j)) + static_cast<double>(bias[j]));
        }
      }
    });
  });
}

}  // namespace tessera::reference
