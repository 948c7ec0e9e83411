#pragma once
#include <string_view>
#include <tessera/operation.hpp>
#include <vector>

// Matrices [b, m, n]: the experts of a layer are b of them, anything else is one, and a vector is
// one row. A rank holds the elements that tensor parallelism leaves it, `rows` × `columns` of them
// without padding; the operations leave padding alone.

/// For each matrix on this rank, sums fp64 [b·m + b + b·n] = Σ (g² + eps) of each row, Σ main² of
/// all, Σ (g² + eps) of each column; g = grad · gradient scale. by_row fp64 [b·m]: scratch.
struct AdafactorSumsArgs {
  static constexpr std::string_view kName = "example.adafactor_sums";
  static constexpr int kTensors = 5, kOutputs = 2;
  tessera::TensorArg scalars, grad, main, by_row, sums;
  tessera::i64 rows = 0, columns = 0;
  double eps = 0;
  static void infer(AdafactorSumsArgs&) {}
};

/// Makes the running means of whole rows and columns from their sums; grad becomes g over the root
/// of the second moment that they stand for. squares fp64 [b] = Σ of its squares on this rank. A
/// skipped step leaves the means.
struct AdafactorMeansArgs {
  static constexpr std::string_view kName = "example.adafactor_means";
  static constexpr int kTensors = 7, kOutputs = 5;
  tessera::TensorArg scalars, sums, grad, row_means, column_means, by_row, squares;
  tessera::i64 rows = 0, columns = 0;          ///< on this rank
  tessera::i64 all_rows = 0, all_columns = 0;  ///< of the matrix
  double decay = 0;                            ///< the means keep 1 - step^-decay of themselves
  static void infer(AdafactorMeansArgs&) {}
};

/// main -= rate · grad / max(1, RMS(grad) / clip) + decay · main, rounded to compute (optional);
/// rate = learning rate · max(least, RMS(main)). grad = 0. A skipped step leaves main.
struct AdafactorApplyArgs {
  static constexpr std::string_view kName = "example.adafactor_apply";
  static constexpr int kTensors = 7, kOutputs = 3;
  tessera::TensorArg scalars, hyper, sums, squares, grad, main, compute;
  tessera::i64 elements = 0;  ///< of a matrix, whole
  double clip = 0, least = 0;
  static void infer(AdafactorApplyArgs&) {}
};

/// The kernels for devices whose memory the CPU addresses.
std::vector<tessera::Kernel> adafactor_kernels();
