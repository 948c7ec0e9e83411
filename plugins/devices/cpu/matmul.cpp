#include "registration.hpp"

#include <dnnl.hpp>

#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <unordered_map>

#include "isa.hpp"
#include "tessera/hash.hpp"
#include "tessera/parallel_for.hpp"

// Matrix products by oneDNN. A primitive is made once for each shape and kept; a launch gives it
// addresses only. It takes its threads from OpenMP, the same that parallel_for runs on.
namespace tessera::cpu {
namespace {

/// What a primitive is made for.
struct Key {
  i64 m, n, k, a_stride, b_stride, out_stride;
  i64 transpose_a, transpose_b, accumulate, bias, threads, data, result;  // dtypes last
  bool operator==(const Key&) const = default;
};

struct KeyHash {
  std::size_t operator()(const Key& key) const {
    return hash64(std::as_bytes(std::span(&key, 1)));  // a Key has no padding
  }
};

// Products of fewer multiplications are not worth a second thread, above all one that must be woken
// on a busy host: those of a generated token are that small.
constexpr i64 kSmall = 1 << 19;

int threads_for(const MatmulArgs& args) {
  const i64 k = args.a.shape[args.transpose_a ? 0 : 1];
  return args.out.elements() * k < kSmall ? 1 : parallel_threads();
}

Key key_of(const MatmulArgs& args) {
  return {.m = args.out.shape[0],
          .n = args.out.shape[1],
          .k = args.a.shape[args.transpose_a ? 0 : 1],
          .a_stride = args.a.strides[0],
          .b_stride = args.b.strides[0],
          .out_stride = args.out.strides[0],
          .transpose_a = args.transpose_a,
          .transpose_b = args.transpose_b,
          .accumulate = args.accumulate,
          .bias = static_cast<bool>(args.bias),
          .threads = threads_for(args),
          .data = static_cast<i64>(args.a.dtype),
          .result = static_cast<i64>(args.out.dtype)};
}

dnnl::memory::data_type type_of(i64 dtype) {
  using Type = dnnl::memory::data_type;
  return static_cast<DType>(dtype) == DType::bf16 ? Type::bf16 : Type::f32;
}

dnnl::memory::desc matrix(i64 rows, i64 columns, i64 stride, bool transposed, i64 dtype) {
  using Dims = dnnl::memory::dims;
  return {Dims{rows, columns}, type_of(dtype), transposed ? Dims{1, stride} : Dims{stride, 1}};
}

/// oneDNN's first choice is slower than its older GEMM where neither matrix is transposed, as in
/// input gradients (README.md). `again` makes the description anew: the search may run past it.
template <class Again>
void prefer_gemm(dnnl::matmul::primitive_desc& primitive, Again&& again) {
  do {
    if (std::strncmp(primitive.impl_info_str(), "gemm:jit", 8) == 0) return;
  } while (primitive.next_impl());
  primitive = again();
}

/// One primitive with memory objects that take a launch's addresses.
class Product {
 public:
  Product(const Key& key, const dnnl::engine& engine) {
    const auto a = matrix(key.m, key.k, key.a_stride, key.transpose_a != 0, key.data);
    const auto b = matrix(key.k, key.n, key.b_stride, key.transpose_b != 0, key.data);
    const auto out = matrix(key.m, key.n, key.out_stride, false, key.result);
    const dnnl::memory::desc bias({1, key.n}, type_of(key.data), dnnl::memory::dims{key.n, 1});
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (key.accumulate != 0) {
      dnnl::post_ops add_to_out;
      add_to_out.append_sum(1.0F);
      attributes.set_post_ops(add_to_out);
    }
    const auto description =
        key.bias != 0 ? dnnl::matmul::desc(a, b, bias, out) : dnnl::matmul::desc(a, b, out);
    dnnl::matmul::primitive_desc primitive(description, attributes, engine);
    const bool fp32 = static_cast<DType>(key.data) == DType::fp32;
    if (fp32 && key.transpose_a == 0 && key.transpose_b == 0) {
      prefer_gemm(primitive,
                  [&] { return dnnl::matmul::primitive_desc(description, attributes, engine); });
    }
    primitive_ = dnnl::matmul(primitive);
    scratchpad_bytes_ = static_cast<i64>(primitive.scratchpad_desc().get_size());
    memories_ = {dnnl::memory(a, engine, nullptr),
                 dnnl::memory(b, engine, nullptr),
                 dnnl::memory(out, engine, nullptr),
                 dnnl::memory(primitive.scratchpad_desc(), engine, nullptr),
                 dnnl::memory(bias, engine, nullptr)};
    constexpr std::array<int, 5> kNames = {
        DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_SCRATCHPAD, DNNL_ARG_BIAS};
    for (std::size_t i = 0; i < kNames.size(); ++i) arguments_[i] = {kNames[i], memories_[i].get()};
    count_ = key.bias != 0 ? 5 : 4;
  }

  i64 scratchpad_bytes() const { return scratchpad_bytes_; }

  void run(const MatmulArgs& args, void* scratchpad, dnnl::stream& stream) {
    const std::array<void*, 5> addresses = {
        args.a.address, args.b.address, args.out.address, scratchpad, args.bias.address};
    for (int i = 0; i < count_; ++i) {
      memories_[static_cast<std::size_t>(i)].set_data_handle(
          addresses[static_cast<std::size_t>(i)]);
    }
    const dnnl_status_t status =
        dnnl_primitive_execute(primitive_.get(), stream.get(), count_, arguments_.data());
    require(status == dnnl_success,
            "oneDNN failed in a matrix product (status {})",
            static_cast<int>(status));
  }

 private:
  dnnl::matmul primitive_;
  i64 scratchpad_bytes_ = 0;
  std::array<dnnl::memory, 5> memories_;
  std::array<dnnl_exec_arg_t, 5> arguments_{};
  int count_ = 0;
};

/// The products of one device. Used by its rank's thread only.
class Products {
 public:
  /// Fits the arguments; `made` tells whether it had to be created.
  Product& find(const MatmulArgs& args, bool& made) {
    const Key key = key_of(args);
    const ParallelThreads threads(static_cast<int>(key.threads));
    std::unique_ptr<Product>& product = products_[key];
    made = product == nullptr;
    if (made) product = std::make_unique<Product>(key, engine_);
    return *product;
  }
  void run(const MatmulArgs& args, void* scratchpad) {
    bool made = false;
    Product& product = find(args, made);
    const ParallelThreads threads(threads_for(args));
    product.run(args, scratchpad, stream_);
  }

 private:
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::unordered_map<Key, std::unique_ptr<Product>, KeyHash> products_;
};

/// oneDNN rejects k = 0. Then `out` stays as it is when accumulating, else it becomes the bias.
bool degenerate(const MatmulArgs& args) {
  return args.out.elements() == 0 || args.a.elements() == 0;
}

void run_degenerate(const MatmulArgs& args) {
  if (args.accumulate) return;
  const float* bias = args.bias.as<const float>();
  for (i64 i = 0; i < args.out.shape[0]; ++i) {
    float* row = args.out.as<float>() + i * args.out.strides[0];
    for (i64 j = 0; j < args.out.shape[1]; ++j) row[j] = bias != nullptr ? bias[j] : 0.0F;
  }
}

/// Who multiplies bf16: oneDNN where the processor has tiles of its own (AMX), else ours. The
/// environment variable asks for one of them.
bool bf16_by_onednn() {
  const char* wanted = std::getenv("TESSERA_CPU_BF16");
  if (wanted == nullptr || *wanted == '\0') return has_amx();
  const std::string_view name = wanted;
  require(
      name == "onednn" || name == "tiles", "TESSERA_CPU_BF16={}: known are onednn and tiles", name);
  return name == "onednn";
}

/// The products of one device: oneDNN's, or those of the tiles of simd/.
class Multiplier {
 public:
  explicit Multiplier(const Kernels& table) : table_(table) {}

  /// Ours also take what oneDNN does not: products without an inner dimension.
  bool tiles(const MatmulArgs& args) const {
    return args.a.dtype == DType::fp16 ||
           (args.a.dtype == DType::bf16 && (!onednn_ || degenerate(args)));
  }

  LaunchRequirements prepare(const MatmulArgs& args) {
    if (tiles(args)) return {.workspace_bytes = of<MatmulArgs>().bytes(args)};
    if (degenerate(args)) return {};
    LaunchRequirements setup;
    try {
      setup.workspace_bytes = products_.find(args, setup.first_use).scratchpad_bytes();
    } catch (const dnnl::error& error) {
      fail("oneDNN makes no matrix product [{}, {}] with inner dimension {}: {}",
           args.out.shape[0],
           args.out.shape[1],
           args.a.shape[args.transpose_a ? 0 : 1],
           error.what());
    }
    return setup;
  }
  void run(const MatmulArgs& args, void* workspace) {
    if (tiles(args)) {
      of<MatmulArgs>().run(args, workspace);
    } else if (degenerate(args)) {
      run_degenerate(args);
    } else {
      products_.run(args, workspace);
    }
  }

  LaunchRequirements prepare(const LinearWeightArgs& args) {
    const MatmulArgs product = args.product();
    if (!sums_in_tiles(product)) return prepare(product);
    return {.workspace_bytes = of<LinearWeightArgs>().bytes(args)};
  }
  void run(const LinearWeightArgs& args, void* workspace) {
    const MatmulArgs product = args.product();
    if (sums_in_tiles(product)) return of<LinearWeightArgs>().run(args, workspace);
    run(product, workspace);
    static_cast<const PlainKernel<ColumnSumArgs>&>(table_).run(args.sums());
  }

 private:
  template <class Args>
  const WorkspaceKernel<Args>& of() const {
    return table_;
  }
  bool sums_in_tiles(const MatmulArgs& args) const { return tiles(args) && !degenerate(args); }

  const Kernels& table_;  // constants of the plugin
  bool onednn_ = bf16_by_onednn();
  Products products_;
};

template <class Args>
Kernel product_kernel(const std::shared_ptr<Multiplier>& multiplier) {
  return make_kernel<Args>([multiplier](const Args& args) { return multiplier->prepare(args); },
                           [multiplier](const Args& args, void* workspace, Stream&) {
                             multiplier->run(args, workspace);
                           },
                           {DType::fp32, DType::bf16, DType::fp16});
}

}  // namespace

std::vector<Kernel> make_products(const Kernels& table) {
  const auto multiplier = std::make_shared<Multiplier>(table);
  return {product_kernel<MatmulArgs>(multiplier), product_kernel<LinearWeightArgs>(multiplier)};
}

}  // namespace tessera::cpu
