#include "onednn.hpp"

#include <dnnl.hpp>

#include <array>
#include <cstring>
#include <span>
#include <unordered_map>

#include "product_size.hpp"
#include "tessera/base/hash.hpp"
#include "tessera/device/thread_team.hpp"
#include "tessera/parallel_for.hpp"

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
  dnnl::primitive_attr attributes;
  attributes.set_fpmath_mode(dnnl::fpmath_mode::strict);
  return dnnl::matmul::primitive_desc(dnnl::matmul::desc(a, any, out), attributes, engine)
      .weights_desc();
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
    attributes.set_fpmath_mode(dnnl::fpmath_mode::strict);  // whatever the environment has
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
      // A product of few rows may want another form; then it reads the matrix itself.
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

}  // namespace

/// The primitives of one device.
class OneDnn::Kept {
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
    const int planned = threads_for(args);
    const ParallelThreads threads(planned);
    require_team(planned);
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
    Packing& packing = find(args, made);
    require_team(parallel_threads());
    packing.run(args, stream_);
  }

 private:
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::unordered_map<Key, std::unique_ptr<Product>, KeyHash> products_;
  std::unordered_map<Key, std::unique_ptr<Packing>, KeyHash> packings_;
};

OneDnn::OneDnn() : kept_(std::make_unique<Kept>()) {
  // Hints of the environment choose other kernels. oneDNN takes them at its first use.
  constexpr auto kNone = dnnl::cpu_isa_hints::no_hints;
  dnnl::set_cpu_isa_hints(kNone);
  require(
      dnnl::get_cpu_isa_hints() == kNone,
      "other code of this process has chosen oneDNN's kernels already (dnnl_set_cpu_isa_hints)");
}
OneDnn::~OneDnn() = default;

bool OneDnn::has_avx512() {
  const auto bits = [](dnnl::cpu_isa isa) { return static_cast<unsigned>(isa); };
  const unsigned wanted = bits(dnnl::cpu_isa::avx512_core);
  return (bits(dnnl::get_effective_cpu_isa()) & wanted) == wanted;
}

LaunchRequirements OneDnn::prepare(const MatmulArgs& args) {
  LaunchRequirements setup;
  try {
    setup.workspace_bytes = kept_->find(args, setup.first_use).scratchpad_bytes();
  } catch (const dnnl::error& error) {
    fail("oneDNN makes no matrix product [{}, {}] with inner dimension {}: {}",
         args.out.shape[0],
         args.out.shape[1],
         args.a.shape[args.transpose_a ? 0 : 1],
         error.what());
  }
  return setup;
}

LaunchRequirements OneDnn::prepare(const PackWeightArgs& args) {
  LaunchRequirements setup;
  try {
    setup.output_bytes = kept_->find(args, setup.first_use).bytes();
  } catch (const dnnl::error& error) {
    fail("oneDNN packs no matrix [{}, {}]: {}", args.b.shape[0], args.b.shape[1], error.what());
  }
  return setup;
}

void OneDnn::run(const MatmulArgs& args, void* workspace) { kept_->run(args, workspace); }
void OneDnn::run(const PackWeightArgs& args) { kept_->run(args); }

}  // namespace tessera::cpu
