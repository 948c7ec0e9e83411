#include "products.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

#include "kernels.hpp"
#include "product_plan.hpp"
#include "tessera/io/written.hpp"
#include "tessera/ops/elementwise.hpp"

namespace tessera::cuda {
namespace {

/// Whether there is nothing to multiply: out stays, becomes the bias, or 0.
bool is_empty(const MatmulArgs& args) { return args.out.elements() == 0 || args.a.elements() == 0; }

i64 workspace_of(const MatmulArgs& args) { return is_empty(args) ? 0 : kProductWorkspace; }

/// The bias as a matrix like out, whose rows are all the same memory.
TensorArg bias_rows(const MatmulArgs& args) {
  TensorArg rows = args.out;
  rows.address = args.bias.address;
  rows.strides[0] = 0;
  rows.strides[1] = 1;
  return rows;
}

void store_bias(const MatmulArgs& args, cudaStream_t stream) {
  run(CopyArgs{bias_rows(args), args.out}, nullptr, stream);
}

void run_empty(const MatmulArgs& args, cudaStream_t stream) {
  if (args.accumulate || args.out.elements() == 0) return;
  if (args.bias) {
    store_bias(args, stream);
  } else {
    run(FillArgs{args.out, 0}, nullptr, stream);
  }
}

/// The same product, added to a bias that is in out already.
MatmulArgs onto_bias(MatmulArgs args) {
  args.bias = {};
  args.accumulate = true;
  return args;
}

}  // namespace

class Products::Plans {
 public:
  Plans(const lt::Library& library, Fp32Products fp32)
      : library_(library), tf32_(fp32 == Fp32Products::tf32) {
    lt::Context* context = nullptr;
    library_.check(library_.create(&context), "cublasLtCreate");
    context_ = {context, LtDestroy{&library_}};
  }

  std::string hardware() const {
    std::string text = library_.name();
    if (tf32_) text += "; products of fp32 in TF32";
    for (const char* name : {"NVIDIA_TF32_OVERRIDE",
                             "CUBLAS_EMULATE_SINGLE_PRECISION",
                             "CUBLAS_EMULATE_DOUBLE_PRECISION",
                             "CUBLAS_EMULATION_STRATEGY",
                             "CUBLASLT_HEURISTICS_LUT_FILE"}) {
      if (const char* value = std::getenv(name)) {
        text += fmt::format("; {}={}", name, written_plain(value));
      }
    }
    return text;
  }

  /// True: made now.
  bool make(const MatmulArgs& args) {
    const ProductKey key(args);
    if (plans_.contains(key)) return false;
    ProductPlan plan(library_, context_.get(), key, tf32_);
    if (!plan.found() && args.bias) {
      make(onto_bias(args));
    } else if (!plan.found()) {
      fail(
          "cuBLASLt has no way to compute {}: {}", key.text(), library_.status_name(plan.status()));
    }
    plans_.emplace(key, std::move(plan));
    return true;
  }

  void run(const MatmulArgs& args, void* workspace, cudaStream_t stream) {
    const ProductPlan& plan = of(args);
    if (plan.found()) return plan.run(args, workspace, stream);
    store_bias(args, stream);  // the bias is rounded to out's dtype: it has it
    of(onto_bias(args)).run(onto_bias(args), workspace, stream);
  }

 private:
  const ProductPlan& of(const MatmulArgs& args) {
    const ProductKey key(args);
    const auto found = plans_.find(key);
    require(found != plans_.end(), "matmul was launched without being prepared: {}", key.text());
    return found->second;
  }

  lt::Library library_;
  bool tf32_;
  LtOwned<lt::Context> context_;
  std::map<ProductKey, ProductPlan> plans_;
};

Products::Products() = default;
Products::Products(const lt::Library& library, Fp32Products fp32)
    : plans_(std::make_unique<Plans>(library, fp32)) {}
Products::~Products() = default;

std::string Products::hardware() const { return plans_ ? plans_->hardware() : "planned"; }

LaunchRequirements Products::prepare(const MatmulArgs& args) {
  return {.workspace_bytes = workspace_of(args),
          .first_use = plans_ && !is_empty(args) && plans_->make(args)};
}

void Products::launch(const MatmulArgs& args, void* workspace, cudaStream_t stream) {
  require(plans_ != nullptr, "a planned device computes nothing");
  if (is_empty(args)) return run_empty(args, stream);
  plans_->run(args, workspace, stream);
}

Kernel make_matmul_kernel(const std::shared_ptr<Products>& products) {
  return make_kernel<MatmulArgs>(
      [products](const MatmulArgs& args) { return products->prepare(args); },
      [products](const MatmulArgs& args, void* workspace, Stream& stream) {
        products->launch(args, workspace, static_cast<cudaStream_t>(stream.native()));
      },
      kFloatingDTypes);
}

// The product and the sums take the workspace one after the other.
Kernel make_linear_weight_kernel(const std::shared_ptr<Products>& products) {
  return make_kernel<LinearWeightArgs>(
      [products](const LinearWeightArgs& args) {
        LaunchRequirements needs = products->prepare(args.product());
        needs.workspace_bytes =
            std::max(needs.workspace_bytes, Workspace<ColumnSumArgs>::bytes(args.sums()));
        return needs;
      },
      [products](const LinearWeightArgs& args, void* workspace, Stream& stream) {
        auto* native = static_cast<cudaStream_t>(stream.native());
        products->launch(args.product(), workspace, native);
        run(args.sums(), workspace, native);
      },
      kFloatingDTypes);
}

}  // namespace tessera::cuda
