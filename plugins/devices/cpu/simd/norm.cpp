#include "simd/columns.hpp"
#include "simd/kernels_of_isa.hpp"
#include "simd/rows.hpp"
#include "tessera/parallel_for.hpp"

namespace tessera::cpu::TESSERA_ISA {
namespace {

/// Sum over a row of term(j, count).
template <class Term>
[[gnu::always_inline]] inline float row_sum(i64 width, Term term) {
  F a = {}, b = {};
  i64 j = 0;
  for (; j + 2 * kLanes <= width; j += 2 * kLanes) {
    a += term(j, Whole{});
    b += term(j + kLanes, Whole{});
  }
  for_vectors(width - j, [&](i64 offset, auto count) { a += term(j + offset, count); });
  return sum(a + b);
}

/// x̂ of one vector; only centred rows have a mean.
template <bool kCentred>
[[gnu::always_inline]] inline F normal(F x, float mean, float rstd) {
  if constexpr (kCentred) {
    return (x - mean) * rstd;
  } else {
    return x * rstd;
  }
}

template <class T, bool kCentred>
void normalise(const LayerNormArgs& args) {
  const auto x = rows_of<const T>(args.x);
  const auto out = rows_of<T>(args.out);
  const T* weight = args.weight.as<const T>();
  const T* bias = args.bias.as<const T>();
  float* means = args.mean.as<float>();
  float* rstds = args.rstd.as<float>();
  const float per_width = 1.0F / static_cast<float>(x.width);
  const float eps = static_cast<float>(args.eps);
  parallel_for(x.n, row_grain(x.width), [=](i64 begin, i64 end) {
    for (i64 row = begin; row < end; ++row) {
      const T* from = x[row];
      T* to = out[row];
      const auto value = [=](i64 j, auto count) { return load(from + j, count); };
      float mean = 0;
      if constexpr (kCentred) mean = per_width * row_sum(x.width, value);
      const auto squared = [=](i64 j, auto count) {
        F d = load(from + j, count);
        if constexpr (kCentred) d = keep(d - mean, count);
        return d * d;
      };
      const float variance = per_width * row_sum(x.width, squared);
      const float rstd = 1.0F / __builtin_sqrtf(variance + eps);
      if constexpr (kCentred) means[row] = mean;
      rstds[row] = rstd;
      for_vectors(x.width, [=](i64 j, auto count) {
        const F x_hat = normal<kCentred>(load(from + j, count), mean, rstd);
        if constexpr (kCentred) {
          store(to + j, x_hat * load(weight + j, count) + load(bias + j, count), count);
        } else {
          store(to + j, x_hat * load(weight + j, count), count);
        }
      });
    }
  });
}

// With g = grad · weight: dx = rstd (g - mean(g) - x̂ mean(g x̂)), without mean(g) where rows are
// not centred.
template <class T, bool kCentred, class Args>
void input_gradient(const Args& args) {
  constexpr bool kAdds = requires { args.sum; };
  Rows<const T> added;
  if constexpr (kAdds) added = rows_of<const T>(args.sum);
  const auto grad = rows_of<const T>(args.grad);
  const auto x = rows_of<const T>(args.x);
  const auto out = rows_of<T>(args.out);
  const T* weight = args.weight.template as<const T>();
  const float* means = args.mean.template as<const float>();
  const float* rstds = args.rstd.template as<const float>();
  const float per_width = 1.0F / static_cast<float>(x.width);
  parallel_for(x.n, row_grain(x.width), [=](i64 begin, i64 end) {
    for (i64 row = begin; row < end; ++row) {
      const T* g = grad[row];
      const T* from = x[row];
      T* to = out[row];
      const float mean = kCentred ? means[row] : 0, rstd = rstds[row];
      float mean_g = 0, mean_gx;
      if constexpr (kCentred) {
        F sum_g = {}, sum_gx = {};
        for_vectors(x.width, [&](i64 j, auto count) {
          const F gw = load(g + j, count) * load(weight + j, count);
          sum_g += gw;
          sum_gx += gw * normal<true>(load(from + j, count), mean, rstd);
        });
        mean_g = per_width * sum(sum_g);
        mean_gx = per_width * sum(sum_gx);
      } else {
        mean_gx = per_width * row_sum(x.width, [=](i64 j, auto count) {
                    const F gw = load(g + j, count) * load(weight + j, count);
                    return gw * normal<false>(load(from + j, count), 0, rstd);
                  });
      }
      for_vectors(x.width, [=](i64 j, auto count) {
        const F gw = load(g + j, count) * load(weight + j, count);
        const F x_hat = normal<kCentred>(load(from + j, count), mean, rstd);
        F dx;
        if constexpr (kCentred) {
          dx = rstd * (gw - mean_g - x_hat * mean_gx);
        } else {
          dx = rstd * (gw - x_hat * mean_gx);
        }
        // Adds to what would have been stored, as an operation of its own would.
        if constexpr (kAdds) dx = load(added[row] + j, count) + apart(dx);
        store(to + j, dx, count);
      });
    }
  });
}

template <class T>
void weight_gradient(const LayerNormWeightArgs& args) {
  const auto grad = rows_of<const T>(args.grad);
  const auto x = rows_of<const T>(args.x);
  const float* means = args.mean.as<const float>();
  const float* rstds = args.rstd.as<const float>();
  if (args.centred) {
    sum_columns<2>(
        x.n, x.width, {&args.weight_grad, &args.bias_grad}, [=](i64 row, i64 column, auto count) {
          const F g = load(grad[row] + column, count);
          const F xj = load(x[row] + column, count);
          return Terms<2>{{g * normal<true>(xj, means[row], rstds[row]), g}};
        });
  } else {
    sum_columns<1>(x.n, x.width, {&args.weight_grad}, [=](i64 row, i64 column, auto count) {
      const F xj = load(x[row] + column, count);
      return Terms<1>{{load(grad[row] + column, count) * normal<false>(xj, 0, rstds[row])}};
    });
  }
}

template <class Args>
void input_gradient(const Args& args) {
  with_storage(args.x.dtype, [&]<class T>(T) {
    args.centred ? input_gradient<T, true>(args) : input_gradient<T, false>(args);
  });
}

}  // namespace

template <>
void run(const LayerNormArgs& args) {
  with_storage(args.x.dtype, [&]<class T>(T) {
    args.centred ? normalise<T, true>(args) : normalise<T, false>(args);
  });
}

template <>
void run(const LayerNormBackwardArgs& args) {
  input_gradient(args);
}

template <>
void run(const LayerNormBackwardAddArgs& args) {
  input_gradient(args);
}

template <>
void run(const LayerNormWeightArgs& args) {
  with_storage(args.x.dtype, [&]<class T>(T) { weight_gradient<T>(args); });
}

}  // namespace tessera::cpu::TESSERA_ISA
