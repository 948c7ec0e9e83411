#include <fmt/format.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "few_rows.hpp"
#include "mkl.hpp"
#include "onednn.hpp"
#include "product_size.hpp"
#include "registration.hpp"
#include "tessera/error.hpp"
#include "tessera/io/written.hpp"

// Who multiplies matrices: the tiles of simd/, oneDNN or MKL.
namespace tessera::cpu {
namespace {

enum class By { tiles, onednn, mkl };

/// bf16: ours, unless oneDNN is asked for. On AMX its bits depend on the number of threads
/// (README.md).
By choose_for_bf16(const CpuConfig& config) {
  if (config.bf16_matmul == "tiles") return By::tiles;
  if (!OneDnn::has_avx512()) {
    fail_config(
        "device.bf16_matmul = \"onednn\": oneDNN multiplies bf16 with AVX-512 only, and finds none "
        "here");
  }
  return By::onednn;
}

/// fp32: with AVX-512, which the kernels of AMX need too, MKL on Intel's processors where the
/// system has it, else oneDNN. oneDNN's older products share the inner dimension out among threads,
/// so that bits would depend on their number; ours are level in speed.
By choose_for_fp32(const CpuConfig& config, std::string_view isa) {
  if (config.fp32_matmul == "tiles") return By::tiles;
  if (config.fp32_matmul == "onednn") return By::onednn;
  if (config.fp32_matmul == "mkl") return By::mkl;
  if (!isa.starts_with("avx512") && isa != "amx") return By::tiles;
  if (__builtin_cpu_is("intel") && Mkl::installed()) return By::mkl;
  return OneDnn::has_avx512() ? By::onednn : By::tiles;
}

/// A kernel of simd/.
template <class Args>
using KernelOf =
    std::conditional_t<WithWorkspace::contains<Args>, WorkspaceKernel<Args>, PlainKernel<Args>>;

/// The products of one device.
class Multiplier {
 public:
  Multiplier(const Kernels& table, const CpuConfig& config)
      : table_(table),
        bf16_(choose_for_bf16(config)),
        fp32_(choose_for_fp32(config, table.isa)),
        special_(fp32_ == By::onednn && config.fp32_matmul == "auto" ? By::tiles : fp32_),
        prepares_fp32_(config.prepare_fp32) {
    if (!config.mkl_folder.empty() && config.fp32_matmul != "mkl") {
      fail_config("device.mkl_folder is for device.fp32_matmul = \"mkl\", which is \"{}\"",
                  config.fp32_matmul);
    }
    if (fp32_ == By::mkl) mkl_.emplace(config.mkl_folder);
    if (prepares_fp32_ && fp32_ != By::onednn) {
      fail_config(
          "device.prepare_fp32 prepares weights for oneDNN, and here fp32 is {}: set "
          "device.fp32_matmul = \"onednn\", or leave it out",
          name_of(fp32_));
    }
  }

  std::string hardware() const {
    return fmt::format("{}; matmul: fp32 {}{}, bf16 {}{}",
                       table_.isa,
                       name_of(fp32_),
                       special_ == fp32_ ? "" : " and " + std::string(name_of(special_)),
                       name_of(bf16_),
                       limits_of_libraries());
  }

  LaunchRequirements prepare(const MatmulArgs& args) {
    switch (by(args)) {
      case By::tiles:
        return {.workspace_bytes = ours<MatmulArgs>().bytes(args)};
      case By::onednn:
        return onednn_.prepare(args);
      case By::mkl:
        return {};
    }
    return {};
  }
  void run(const MatmulArgs& args, void* workspace) {
    switch (by(args)) {
      case By::tiles:
        return ours<MatmulArgs>().run(args, workspace);
      case By::onednn:
        return onednn_.run(args, workspace);
      case By::mkl:
        mkl_->run(args);
        if (args.bias) ours<AddBiasArgs>().run({args.out, args.bias, args.out});
    }
  }

  /// The form of a weight that MKL multiplies is the weight.
  LaunchRequirements prepare(const PackWeightArgs& args) {
    const By by = by_dtype(args.b.dtype);
    const bool packs = args.b.dtype != DType::fp32 || (by == By::onednn && prepares_fp32_);
    if (args.b.elements() == 0 || !packs) return {};
    if (by == By::onednn) return onednn_.prepare(args);
    return {.output_bytes = ours<PackWeightArgs>().bytes(args)};
  }
  void run(const PackWeightArgs& args, void* workspace) {
    by_dtype(args.b.dtype) == By::onednn ? onednn_.run(args)
                                         : ours<PackWeightArgs>().run(args, workspace);
  }

  /// Only ours sum the gradient of the bias on the way.
  LaunchRequirements prepare(const LinearWeightArgs& args) {
    if (!sums_on_the_way(args)) return prepare(args.product());
    return {.workspace_bytes = ours<LinearWeightArgs>().bytes(args)};
  }
  void run(const LinearWeightArgs& args, void* workspace) {
    if (sums_on_the_way(args)) return ours<LinearWeightArgs>().run(args, workspace);
    run(args.product(), workspace);
    ours<ColumnSumArgs>().run(args.sums());
  }

 private:
  template <class Args>
  const KernelOf<Args>& ours() const {
    return table_;
  }

  By by_dtype(DType dtype) const {
    switch (dtype) {
      case DType::fp16:
        return By::tiles;
      case DType::bf16:
        return bf16_;
      default:
        return fp32_;
    }
  }
  /// Ours also take what the libraries do not: products without an inner dimension.
  By by(const MatmulArgs& args) const {
    if (multiplications(args) == 0) return By::tiles;
    // Whoever packed the right factor multiplies it.
    const bool special =
        args.a.dtype == DType::fp32 && !args.packed && (args.transpose_a || has_few_rows(args));
    const By by = special ? special_ : by_dtype(args.a.dtype);
    return by == By::mkl && !Mkl::fits(args) ? By::tiles : by;
  }
  bool sums_on_the_way(const LinearWeightArgs& args) const {
    const MatmulArgs product = args.product();
    return multiplications(product) > 0 && by(product) == By::tiles;
  }

  /// What in the environment chooses a library's kernels, and so last bits: ranks compare it.
  std::string limits_of_libraries() const {
    std::string text;
    const auto add = [&](By by, std::initializer_list<const char*> names) {
      if (fp32_ != by && bf16_ != by) return;
      for (const char* name : names) {
        if (const char* value = std::getenv(name))
          text += fmt::format("; {}={}", name, written_plain(value));
      }
    };
    add(By::onednn, {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"});
    add(By::mkl, {"MKL_ENABLE_INSTRUCTIONS"});
    return text;
  }

  std::string_view name_of(By by) const {
    switch (by) {
      case By::tiles:
        return "built-in";
      case By::onednn:
        return "oneDNN";
      case By::mkl:
        return mkl_->name();
    }
    return "";
  }

  const Kernels& table_;  // constants of the plugin
  OneDnn onednn_;         ///< made before anybody asks oneDNN what it has, which ends its choices
  By bf16_, fp32_;
  /// Who multiplies fp32 with the left factor transposed, as in weight gradients, and a few rows:
  /// oneDNN shares the inner dimension out among threads in the former and takes longer for the
  /// latter, so ours do unless oneDNN is asked for.
  By special_;
  /// Without packing in blocks this wins nothing (README.md), but it is the code that bf16 by
  /// oneDNN runs, tested everywhere.
  bool prepares_fp32_;
  std::optional<Mkl> mkl_;
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

KernelSet make_products(const Kernels& table, const CpuConfig& config) {
  const auto multiplier = std::make_shared<Multiplier>(table, config);
  return {.kernels = {product_kernel<MatmulArgs>(multiplier),
                      product_kernel<LinearWeightArgs>(multiplier),
                      product_kernel<PackWeightArgs>(multiplier)},
          .hardware = multiplier->hardware()};
}

}  // namespace tessera::cpu
