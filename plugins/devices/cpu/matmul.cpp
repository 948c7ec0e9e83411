#include "registration.hpp"

#include <dnnl.hpp>

#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_map>

#include "tessera/hash.hpp"
#include "tessera/parallel_for.hpp"

// Matrix products by oneDNN. A primitive is made once for each shape and kept; a launch gives it
// addresses only. It takes its threads from OpenMP, the same that parallel_for runs on.
namespace tessera::cpu {
namespace {

/// What a primitive is made for.
struct Key {
  i64 m, n, k, a_stride, b_stride, out_stride;
  i64 transpose_a, transpose_b, accumulate, bias, packed, threads, data, result;  // dtypes last
  bool operator==(const Key&) const = default;
};

struct KeyHash {
  std::size_t operator()(const Key& key) const {
    return hash64(std::as_bytes(std::span(&key, 1)));  // a Key has no padding
  }
};

i64 multiplications(const MatmulArgs& args) {
  return args.out.elements() * args.a.shape[args.transpose_a ? 0 : 1];
}

// Products of fewer multiplications are not worth a second thread, above all one that must be woken
// on a busy host: those of a generated token are that small.
constexpr i64 kSmall = 1 << 19;

int threads_for(const MatmulArgs& args) {
  return multiplications(args) < kSmall ? 1 : parallel_threads();
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
          .packed = static_cast<bool>(args.packed),
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

/// The form in which oneDNN wants the right factor of products with many rows.
dnnl::memory::desc packed_layout(i64 k, i64 n, i64 dtype, const dnnl::engine& engine) {
  constexpr i64 kRows = 1024;
  const dnnl::memory::desc any({k, n}, type_of(dtype), dnnl::memory::format_tag::any);
  const auto a = matrix(kRows, k, k, false, dtype), out = matrix(kRows, n, n, false, dtype);
  return dnnl::matmul::primitive_desc(dnnl::matmul::desc(a, any, out), engine).weights_desc();
}

bool is_reference(const dnnl::matmul::primitive_desc& primitive) {
  return std::strncmp(primitive.impl_info_str(), "ref", 3) == 0;
}

/// One primitive with memory objects that take a launch's addresses.
class Product {
 public:
  Product(const Key& key, const dnnl::engine& engine) {
    const auto a = matrix(key.m, key.k, key.a_stride, key.transpose_a != 0, key.data);
    auto b = matrix(key.k, key.n, key.b_stride, key.transpose_b != 0, key.data);
    const auto out = matrix(key.m, key.n, key.out_stride, false, key.result);
    const dnnl::memory::desc bias({1, key.n}, type_of(key.data), dnnl::memory::dims{key.n, 1});
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (key.accumulate != 0) {
      dnnl::post_ops add_to_out;
      add_to_out.append_sum(1.0F);
      attributes.set_post_ops(add_to_out);
    }
    const auto describe = [&](const dnnl::memory::desc& right, bool may_fail = false) {
      return dnnl::matmul::primitive_desc(key.bias != 0 ? dnnl::matmul::desc(a, right, bias, out)
                                                        : dnnl::matmul::desc(a, right, out),
                                          attributes,
                                          engine,
                                          may_fail);
    };
    dnnl::matmul::primitive_desc primitive = describe(b);
    if (key.packed != 0) {
      // A product of few rows may want another form: then it reads the matrix itself.
      const auto layout = packed_layout(key.k, key.n, key.data, engine);
      const auto with_packed = describe(layout, true);
      packed_ = with_packed && (!is_reference(with_packed) || is_reference(primitive));
      if (packed_) {
        b = layout;
        primitive = with_packed;
      }
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
    const std::array<void*, 5> addresses = {args.a.address,
                                            packed_ ? args.packed.address : args.b.address,
                                            args.out.address,
                                            scratchpad,
                                            args.bias.address};
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
  bool packed_ = false;  // reads the packed form
  i64 scratchpad_bytes_ = 0;
  std::array<dnnl::memory, 5> memories_;
  std::array<dnnl_exec_arg_t, 5> arguments_{};
  int count_ = 0;
};

/// Brings right factors of one shape into oneDNN's form.
class Packing {
 public:
  Packing(const Key& key, const dnnl::engine& engine)
      : from_(matrix(key.k, key.n, key.b_stride, key.transpose_b != 0, key.data), engine, nullptr),
        to_(packed_layout(key.k, key.n, key.data, engine), engine, nullptr),
        reorder_(from_, to_) {}
  i64 bytes() const { return static_cast<i64>(to_.get_desc().get_size()); }
  void run(const PackWeightArgs& args, dnnl::stream& stream) {
    from_.set_data_handle(args.b.address);
    to_.set_data_handle(args.packed.address);
    reorder_.execute(stream, from_, to_);
  }

 private:
  dnnl::memory from_, to_;
  dnnl::reorder reorder_;
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
  Packing& find(const PackWeightArgs& args, bool& made) {
    Key key{};
    key.k = args.b.shape[args.transpose_b ? 1 : 0];
    key.n = args.b.shape[args.transpose_b ? 0 : 1];
    key.b_stride = args.b.strides[0];
    key.transpose_b = args.transpose_b;
    key.threads = parallel_threads();
    key.data = static_cast<i64>(args.b.dtype);
    std::unique_ptr<Packing>& packing = packings_[key];
    made = packing == nullptr;
    if (made) packing = std::make_unique<Packing>(key, engine_);
    return *packing;
  }
  void run(const PackWeightArgs& args) {
    bool made = false;
    find(args, made).run(args, stream_);
  }

 private:
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::unordered_map<Key, std::unique_ptr<Product>, KeyHash> products_;
  std::unordered_map<Key, std::unique_ptr<Packing>, KeyHash> packings_;
};

/// Whether oneDNN uses an instruction set: the processor has it, the system lets it be used, and
/// ONEDNN_MAX_CPU_ISA does not forbid it.
bool onednn_has(dnnl::cpu_isa wanted) {
  const auto bits = [](dnnl::cpu_isa isa) { return static_cast<unsigned>(isa); };
  return (bits(dnnl::get_effective_cpu_isa()) & bits(wanted)) == bits(wanted);
}

/// Whether the environment variable asks for oneDNN, or for our tiles; `otherwise` without it.
bool onednn_wanted(const char* variable, bool otherwise) {
  const char* wanted = std::getenv(variable);
  if (wanted == nullptr || *wanted == '\0') return otherwise;
  const std::string_view name = wanted;
  require(name == "onednn" || name == "tiles", "{}={}: known are onednn and tiles", variable, name);
  return name == "onednn";
}

/// Who multiplies bf16: ours, unless oneDNN is asked for. On AMX its bits depend on the number of
/// threads (README.md).
bool bf16_by_onednn() {
  const bool onednn = onednn_wanted("TESSERA_CPU_BF16", false);
  require(!onednn || onednn_has(dnnl::cpu_isa::avx512_core),
          "TESSERA_CPU_BF16=onednn: oneDNN multiplies bf16 with AVX-512 only, and finds none here");
  return onednn;
}

/// Who multiplies fp32: oneDNN with AVX-512, which the kernels of AMX need too. Its older products
/// share the inner dimension out among threads, so that bits would depend on their number; ours are
/// level in speed.
bool fp32_by_onednn(const Kernels& table) {
  const std::string_view isa = table.isa;
  return onednn_wanted(
      "TESSERA_CPU_FP32",
      (isa.starts_with("avx512") || isa == "amx") && onednn_has(dnnl::cpu_isa::avx512_core));
}

/// Do products of fp32 by oneDNN have prepared weights? Where weights are not packed in blocks
/// that wins nothing (README.md), but it is the code that bf16 by oneDNN runs, tested everywhere.
bool prepares_fp32() {
  const char* wanted = std::getenv("TESSERA_CPU_PREPARE_FP32");
  return wanted != nullptr && std::string_view(wanted) == "1";
}

/// The products of one device: oneDNN's, or those of the tiles of simd/.
class Multiplier {
 public:
  explicit Multiplier(const Kernels& table) : table_(table), fp32_onednn_(fp32_by_onednn(table)) {}

  /// Ours also take what oneDNN does not: products without an inner dimension.
  bool tiles(const MatmulArgs& args) const {
    return multiplications(args) == 0 || tiles(args.a.dtype);
  }

  LaunchRequirements prepare(const MatmulArgs& args) {
    if (tiles(args)) return {.workspace_bytes = of<MatmulArgs>().bytes(args)};
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

  LaunchRequirements prepare(const PackWeightArgs& args) {
    LaunchRequirements setup;
    const bool fp32 = args.b.dtype == DType::fp32, tiled = tiles(args.b.dtype);
    if (args.b.elements() == 0 || (fp32 && (tiled || !prepares_fp32_))) return setup;
    if (tiled) {
      setup.output_bytes = of<PackWeightArgs>().bytes(args);
    } else {
      try {
        setup.output_bytes = products_.find(args, setup.first_use).bytes();
      } catch (const dnnl::error& error) {
        fail("oneDNN packs no matrix [{}, {}]: {}", args.b.shape[0], args.b.shape[1], error.what());
      }
    }
    return setup;
  }
  void run(const PackWeightArgs& args, void* workspace) {
    tiles(args.b.dtype) ? of<PackWeightArgs>().run(args, workspace) : products_.run(args);
  }

  void run(const MatmulArgs& args, void* workspace) {
    if (tiles(args)) {
      of<MatmulArgs>().run(args, workspace);
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
  bool tiles(DType dtype) const {
    switch (dtype) {
      case DType::fp16:
        return true;
      case DType::bf16:
        return !bf16_onednn_;
      default:
        return !fp32_onednn_;
    }
  }
  bool sums_in_tiles(const MatmulArgs& args) const {
    return tiles(args) && multiplications(args) > 0;
  }

  const Kernels& table_;  // constants of the plugin
  bool bf16_onednn_ = bf16_by_onednn(), fp32_onednn_, prepares_fp32_ = prepares_fp32();
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

constexpr std::string_view kOneDnn = "oneDNN", kOurs = "kernels of its own";

}  // namespace

std::string hardware_text(const Kernels& table) {
  const std::string_view fp32 = fp32_by_onednn(table) ? kOneDnn : kOurs;
  const std::string_view bf16 = bf16_by_onednn() ? kOneDnn : kOurs;
  return fmt::format("{}; products of fp32 by {}, of bf16 by {}", table.isa, fp32, bf16);
}

std::vector<Kernel> make_products(const Kernels& table) {
  const auto multiplier = std::make_shared<Multiplier>(table);
  return {product_kernel<MatmulArgs>(multiplier),
          product_kernel<LinearWeightArgs>(multiplier),
          product_kernel<PackWeightArgs>(multiplier)};
}

}  // namespace tessera::cpu
