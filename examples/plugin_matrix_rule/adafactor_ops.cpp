#include "adafactor_ops.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <tessera/ops.hpp>
#include <tessera/store_compute.hpp>

namespace {

using namespace tessera;

constexpr i64 kGrain = 1 << 14;

template <class Body>
void with_main(const TensorArg& main, Body&& body) {
  if (main.dtype == DType::fp32) return body(float{});
  if (main.dtype == DType::fp64) return body(double{});
  fail("adafactor: needs precision.main = \"fp32\" or \"fp64\", not {}", dtype_name(main.dtype));
}

// Calls body(i) for each row on this rank's threads.
template <class Body>
void each_row(i64 rows, i64 columns, Body&& body) {
  parallel_for(rows, kGrain / columns + 1, [&](i64 begin, i64 end) {
    for (i64 i = begin; i < end; ++i) body(i);
  });
}

// Where the parts of `sums` begin.
struct Sums {
  Sums(const TensorArg& sums, const i64* shape)
      : rows(sums.as<double>()), main(rows + shape[0] * shape[1]), columns(main + shape[0]) {}
  double *rows, *main, *columns;
};

// Sums in the order of rows, whatever the number of threads.
double sum_of(const double* by_row, i64 rows) {
  double sum = 0;
  for (i64 i = 0; i < rows; ++i) sum += by_row[i];
  return sum;
}

void sums(const AdafactorSumsArgs& a) {
  const auto [b, m, n] = std::array{a.grad.shape[0], a.grad.shape[1], a.grad.shape[2]};
  const double scale = a.scalars.as<double>()[step_scalar::kGradientScale];
  const Sums out(a.sums, a.grad.shape);
  double* by_row = a.by_row.as<double>();
  with_main(a.main, [&]<class T>(T) {
    const T *grad = a.grad.as<T>(), *main = a.main.as<T>();
    const auto square = [=, eps = a.eps](i64 at) {
      const double g = scale * static_cast<double>(grad[at]);
      return g * g + eps;
    };
    each_row(b * m, n, [&](i64 i) {
      out.rows[i] = by_row[i] = 0;
      if (i % m >= a.rows) return;
      for (i64 j = 0; j < a.columns; ++j) {
        out.rows[i] += square(i * n + j);
        by_row[i] += static_cast<double>(main[i * n + j]) * main[i * n + j];
      }
    });
    for (i64 k = 0; k < b; ++k) out.main[k] = sum_of(by_row + k * m, m);
    for (i64 k = 0; k < b; ++k) {
      parallel_for(n, kGrain / m + 1, [&](i64 begin, i64 end) {
        std::fill(out.columns + k * n + begin, out.columns + k * n + end, 0.0);
        for (i64 i = 0; i < a.rows; ++i) {
          for (i64 j = begin; j < std::min(end, a.columns); ++j) {
            out.columns[k * n + j] += square((k * m + i) * n + j);
          }
        }
      });
    }
  });
}

template <class Mean>
void move_mean(Mean& mean, double beta, double now) {
  mean = static_cast<Mean>(beta * static_cast<double>(mean) + (1 - beta) * now);
}

void means(const AdafactorMeansArgs& a) {
  const auto [b, m, n] = std::array{a.grad.shape[0], a.grad.shape[1], a.grad.shape[2]};
  const double* scalars = a.scalars.as<double>();
  if (scalars[step_scalar::kFoundInf] != 0) return;
  const double scale = scalars[step_scalar::kGradientScale];
  const double beta = 1 - std::pow(scalars[step_scalar::kSteps], -a.decay);
  const Sums now(a.sums, a.grad.shape);
  double *by_row = a.by_row.as<double>(), *squares = a.squares.as<double>();
  with_floating(a.kName, a.row_means.dtype, [&]<class Mean>(Mean) {
    Mean *rows = a.row_means.as<Mean>(), *columns = a.column_means.as<Mean>();
    for (i64 k = 0; k < b; ++k) {
      Mean *row = rows + k * m, *column = columns + k * n;
      const auto of_rows = static_cast<double>(a.all_columns);
      const auto of_columns = static_cast<double>(a.all_rows);
      for (i64 i = 0; i < a.rows; ++i) move_mean(row[i], beta, now.rows[k * m + i] / of_rows);
      for (i64 j = 0; j < a.columns; ++j) {
        move_mean(column[j], beta, now.columns[k * n + j] / of_columns);
      }
      // The mean over all elements, of what is whole here: rows or columns give the same.
      double mean = 0;
      const bool by_rows = a.rows == a.all_rows;
      for (i64 i = 0; by_rows && i < a.rows; ++i) mean += static_cast<double>(row[i]) / of_columns;
      for (i64 j = 0; !by_rows && j < a.columns; ++j) {
        mean += static_cast<double>(column[j]) / of_rows;
      }
      with_main(a.grad, [&]<class T>(T) {
        T* grad = a.grad.as<T>() + k * m * n;
        each_row(m, n, [&](i64 i) {
          by_row[i] = 0;
          if (i >= a.rows) return;
          const double by_mean = static_cast<double>(row[i]) / mean;
          for (i64 j = 0; j < a.columns; ++j) {
            const double second = by_mean * static_cast<double>(column[j]);
            T& g = grad[i * n + j];
            g = static_cast<T>(scale * static_cast<double>(g) / std::sqrt(second));
            by_row[i] += static_cast<double>(g) * g;
          }
        });
      });
      squares[k] = sum_of(by_row, m);
    }
  });
}

void apply(const AdafactorApplyArgs& a) {
  const auto [b, m, n] = std::array{a.grad.shape[0], a.grad.shape[1], a.grad.shape[2]};
  const double *scalars = a.scalars.as<double>(), *hyper = a.hyper.as<double>();
  const bool skip = scalars[step_scalar::kFoundInf] != 0;
  const double lr = scalars[step_scalar::kLearningRate] * hyper[0], decay = lr * hyper[1];
  const double *of_main = Sums(a.sums, a.grad.shape).main, *squares = a.squares.as<double>();
  const auto rms = [elements = static_cast<double>(a.elements)](double sum) {
    return std::sqrt(sum / elements);
  };
  with_main(a.main, [&]<class T>(T) {
    T *grad = a.grad.as<T>(), *main = a.main.as<T>();
    each_row(b * m, n, [&](i64 i) {
      T *g = grad + i * n, *w = main + i * n;
      const double rate = lr * std::max(a.least, rms(of_main[i / m]));
      const double step = rate / std::max(1.0, rms(squares[i / m]) / a.clip);
      for (i64 j = 0; j < n; ++j) {
        const double before = w[j];
        if (!skip)
          w[j] = static_cast<T>(before - step * static_cast<double>(g[j]) - decay * before);
        g[j] = T{};
      }
      if (!skip) store_compute(a.compute, ShardRun{.length = n, .grad = i * n}, w);
    });
  });
}

}  // namespace

std::vector<Kernel> adafactor_kernels() {
  return {make_kernel<AdafactorSumsArgs>(&sums),
          make_kernel<AdafactorMeansArgs>(&means),
          make_kernel<AdafactorApplyArgs>(&apply)};
}
