// cuBLASLt for the emulator: it reads descriptors as the library does, refuses what it refuses, and
// multiplies by plain loops when the stream comes to it.
#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "cublaslt.hpp"
#include "fake_runtime.hpp"
#include "tessera/device/small_floats.hpp"
#include "tessera/types.hpp"

namespace tessera::cuda::lt {

struct Context {};
struct Product {
  int compute_type, scale_type;
  std::int32_t transpose_a = kAsIs, transpose_b = kAsIs;
  std::uint32_t epilogue = kPlain;
  const void* bias = nullptr;
};
struct Layout {
  int type;
  i64 rows, columns, leading_dimension;
};
struct Preference {
  std::uint64_t most_workspace = 0;
  std::uint32_t reductions = 7;
  std::uint32_t alignment[4] = {256, 256, 256, 256};  // of A, B, C, D
};

namespace {

/// Algorithm::data of a choice: what it was made for.
constexpr std::uint64_t kChosen = 0x7e55e7a;
enum : int { kMark, kWorkspace, kFirstAlignment, kBiasAlignment = kFirstAlignment + 4 };

bool is_aligned(const void* address, std::uint64_t bytes) {
  return reinterpret_cast<std::uintptr_t>(address) % bytes == 0;
}

double read(const void* values, i64 at, int type) {
  switch (type) {
    case kFp64:
      return static_cast<const double*>(values)[at];
    case kFp16:
      return static_cast<double>(static_cast<const Float16*>(values)[at]);
    case kBf16:
      return static_cast<double>(static_cast<const BFloat16*>(values)[at]);
    default:
      return static_cast<const float*>(values)[at];
  }
}

void write(void* values, i64 at, int type, double value) {
  switch (type) {
    case kFp64:
      static_cast<double*>(values)[at] = value;
      break;
    case kFp16:
      static_cast<Float16*>(values)[at] = static_cast<Float16>(value);
      break;
    case kBf16:
      static_cast<BFloat16*>(values)[at] = BFloat16(value);
      break;
    default:
      static_cast<float*>(values)[at] = static_cast<float>(value);
  }
}

/// op(A) or op(B), C or D.
struct Matrix {
  const void* values;
  Layout layout;
  bool turned = false;

  i64 rows() const { return turned ? layout.columns : layout.rows; }
  i64 columns() const { return turned ? layout.rows : layout.columns; }
  double operator()(i64 row, i64 column) const {
    if (turned) std::swap(row, column);
    return read(values, row + column * layout.leading_dimension, layout.type);
  }
};

/// Whether no load can take two of its 16-bit values.
bool in_ones(const Matrix& matrix) {
  return (matrix.layout.type == kFp16 || matrix.layout.type == kBf16) &&
         (matrix.layout.leading_dimension % 2 != 0 || !is_aligned(matrix.values, 4));
}

struct Work {
  Product product;
  double alpha, beta;
  Matrix a, b, c;
  void* d;
  void* workspace;
  std::size_t workspace_bytes;
};

/// Sum is float or double. Sums go up the inner dimension.
template <class Sum>
void multiply_now(const Work& work) {
  const i64 rows = work.c.rows(), columns = work.c.columns(), inner = work.a.columns();
  const auto factor = [&](const Matrix& matrix, i64 row, i64 column) {
    auto value = static_cast<Sum>(matrix(row, column));
    if (work.product.compute_type == kCompute32ByTf32) {  // 10 bits of the mantissa
      value = static_cast<Sum>(
          std::bit_cast<float>(std::bit_cast<u32>(static_cast<float>(value)) & ~0x1fffU));
    }
    return value;
  };
  std::memset(work.workspace, 0xff, work.workspace_bytes);  // another's, if streams share it
  std::vector<Sum> left(static_cast<std::size_t>(inner * rows));
  for (i64 n = 0; n < inner * rows; ++n) {
    left[static_cast<std::size_t>(n)] = factor(work.a, n % rows, n / rows);
  }
  // As cuBLASLt 13.1 on an H200 does, before it adds a bias.
  const bool rounds_first = in_ones(work.a) || in_ones(work.b) || in_ones(work.c);
  std::vector<Sum> sums(static_cast<std::size_t>(rows));
  for (i64 j = 0; j < columns; ++j) {
    std::fill(sums.begin(), sums.end(), Sum(0));
    for (i64 p = 0; p < inner; ++p) {
      const Sum right = factor(work.b, p, j);
      const Sum* values = left.data() + p * rows;
      for (i64 i = 0; i < rows; ++i) sums[static_cast<std::size_t>(i)] += values[i] * right;
    }
    for (i64 i = 0; i < rows; ++i) {
      Sum value = static_cast<Sum>(work.alpha) * sums[static_cast<std::size_t>(i)];
      if (work.beta != 0) value += static_cast<Sum>(work.beta * work.c(i, j));
      const Layout& to = work.c.layout;
      const i64 at = i + j * to.leading_dimension;
      if (work.product.epilogue == kBias) {
        if (rounds_first) {
          write(work.d, at, to.type, static_cast<double>(value));
          value = static_cast<Sum>(read(work.d, at, to.type));
        }
        value += static_cast<Sum>(read(work.product.bias, i, to.type));
      }
      write(work.d, at, to.type, static_cast<double>(value));
    }
  }
}

/// Dtypes that the library multiplies, sizes that fit each other, columns that do not overlap.
bool makes_sense(
    const Product* product, const Layout* a, const Layout* b, const Layout* c, const Layout* d) {
  if (product == nullptr) return false;
  for (const Layout* layout : {a, b, c, d}) {
    if (layout == nullptr || layout->rows <= 0 || layout->columns <= 0 ||
        layout->leading_dimension < layout->rows) {
      return false;
    }
  }
  const bool doubles = product->compute_type == kCompute64;
  const bool wider = d->type == kFp32 && product->epilogue == kPlain;
  const Matrix left{nullptr, *a, product->transpose_a == kTransposed};
  const Matrix right{nullptr, *b, product->transpose_b == kTransposed};
  return product->scale_type == (doubles ? kFp64 : kFp32) && (a->type == kFp64) == doubles &&
         (product->compute_type != kCompute32ByTf32 || a->type == kFp32) && a->type == b->type &&
         c->type == d->type && (d->type == a->type || wider) && left.rows() == d->rows &&
         right.columns() == d->columns && left.columns() == right.rows() && c->rows == d->rows &&
         c->columns == d->columns;
}

template <class T>
int store(T& to, const void* value, std::size_t bytes) {
  if (value == nullptr || bytes != sizeof(T)) return kInvalidValue;
  std::memcpy(&to, value, bytes);
  return kSuccess;
}

int create(Context** context) {
  int gpu = 0;
  if (cudaGetDevice(&gpu) != cudaSuccess) return kNotInitialized;
  *context = new Context;
  return kSuccess;
}
template <class T>
int destroy(T* made) {
  delete made;
  return kSuccess;
}

int product_create(Product** product, int compute_type, int scale_type) {
  *product = new Product{.compute_type = compute_type, .scale_type = scale_type};
  return kSuccess;
}
int product_set(Product* product, int attribute, const void* value, std::size_t bytes) {
  switch (attribute) {
    case kTransposeA:
      return store(product->transpose_a, value, bytes);
    case kTransposeB:
      return store(product->transpose_b, value, bytes);
    case kEpilogue:
      return store(product->epilogue, value, bytes);
    case kBiasAddress:
      return store(product->bias, value, bytes);
    default:
      return kInvalidValue;
  }
}

int layout_create(Layout** layout,
                  int type,
                  std::uint64_t rows,
                  std::uint64_t columns,
                  std::int64_t leading_dimension) {
  *layout = new Layout{type, static_cast<i64>(rows), static_cast<i64>(columns), leading_dimension};
  return kSuccess;
}

int preference_create(Preference** preference) {
  *preference = new Preference;
  return kSuccess;
}
int preference_set(Preference* preference, int attribute, const void* value, std::size_t bytes) {
  switch (attribute) {
    case kMostWorkspace:
      return store(preference->most_workspace, value, bytes);
    case kReductions:
      return store(preference->reductions, value, bytes);
    case kAlignmentA:
    case kAlignmentB:
    case kAlignmentC:
    case kAlignmentD:
      return store(preference->alignment[attribute - kAlignmentA], value, bytes);
    default:
      return kInvalidValue;
  }
}

int choose(Context* context,
           Product* product,
           Layout* a,
           Layout* b,
           Layout* c,
           Layout* d,
           Preference* preference,
           int most,
           Choice* choices,
           int* found) {
  *found = 0;
  if (context == nullptr || preference == nullptr || most <= 0 ||
      !makes_sense(product, a, b, c, d)) {
    return kInvalidValue;
  }
  // As the library of some versions: a bias along a single row or column.
  if (product->epilogue == kBias && (d->rows == 1 || d->columns == 1)) return kNotSupported;
  const std::size_t workspace = a->rows > 64 ? 4096 : 0;
  if (workspace > preference->most_workspace) return kNotSupported;
  choices[0] = {.algorithm = {{kChosen, workspace}},
                .workspace_bytes = workspace,
                .status = kSuccess,
                .waves = 1,
                .reserved = {}};
  std::uint64_t* data = choices[0].algorithm.data;
  for (int i = 0; i < 4; ++i) data[kFirstAlignment + i] = preference->alignment[i];
  const auto bias = reinterpret_cast<std::uintptr_t>(product->bias);
  data[kBiasAlignment] = bias % 16 == 0 ? 16 : bias & -bias;
  *found = 1;
  return kSuccess;
}

int multiply(Context* context,
             Product* product,
             const void* alpha,
             const void* a,
             Layout* a_layout,
             const void* b,
             Layout* b_layout,
             const void* beta,
             const void* c,
             Layout* c_layout,
             void* d,
             Layout* d_layout,
             const Algorithm* algorithm,
             void* workspace,
             std::size_t workspace_bytes,
             cudaStream_t stream) {
  if (context == nullptr || alpha == nullptr || beta == nullptr || algorithm == nullptr ||
      !makes_sense(product, a_layout, b_layout, c_layout, d_layout)) {
    return kInvalidValue;
  }
  const std::uint64_t* data = algorithm->data;
  const void* addresses[] = {a, b, c, d};
  for (int i = 0; i < 4; ++i) {
    if (addresses[i] == nullptr || !is_aligned(addresses[i], data[kFirstAlignment + i])) {
      return kInvalidValue;
    }
  }
  if (product->epilogue == kBias &&
      (product->bias == nullptr || !is_aligned(product->bias, data[kBiasAlignment]))) {
    return kInvalidValue;
  }
  const std::size_t needed = data[kWorkspace];
  if (data[kMark] != kChosen || needed > workspace_bytes || !is_aligned(workspace, 16) ||
      (needed > 0 && workspace == nullptr)) {
    return kInvalidValue;
  }
  const Work work{.product = *product,
                  .alpha = read(alpha, 0, product->scale_type),
                  .beta = read(beta, 0, product->scale_type),
                  .a = {a, *a_layout, product->transpose_a == kTransposed},
                  .b = {b, *b_layout, product->transpose_b == kTransposed},
                  .c = {c, *c_layout},
                  .d = d,
                  .workspace = workspace,
                  .workspace_bytes = needed};
  const cudaError_t result = emulated::enqueue_kernel(stream, [work] {
    work.product.compute_type == kCompute64 ? multiply_now<double>(work)
                                            : multiply_now<float>(work);
    return std::string();
  });
  return result == cudaSuccess ? kSuccess : kExecutionFailed;
}

const char* status_name(int status) {
  const std::pair<int, const char*> names[] = {{kSuccess, "CUBLAS_STATUS_SUCCESS"},
                                               {kNotInitialized, "CUBLAS_STATUS_NOT_INITIALIZED"},
                                               {kInvalidValue, "CUBLAS_STATUS_INVALID_VALUE"},
                                               {kExecutionFailed, "CUBLAS_STATUS_EXECUTION_FAILED"},
                                               {kNotSupported, "CUBLAS_STATUS_NOT_SUPPORTED"}};
  for (const auto& [value, name] : names) {
    if (value == status) return name;
  }
  return "unknown";
}

}  // namespace

Library open() {
  if (emulated::state().machine.fault == "no_cublaslt") return load({"libcublasLt.so.none"}, {});
  return {.version = [] { return std::size_t{130000}; },
          .status_name = status_name,
          .create = create,
          .destroy = destroy<Context>,
          .product_create = product_create,
          .product_destroy = destroy<Product>,
          .product_set = product_set,
          .layout_create = layout_create,
          .layout_destroy = destroy<Layout>,
          .preference_create = preference_create,
          .preference_destroy = destroy<Preference>,
          .preference_set = preference_set,
          .choose = choose,
          .multiply = multiply};
}

}  // namespace tessera::cuda::lt
