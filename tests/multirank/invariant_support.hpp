#pragma once
#include <string>
#include <vector>

#include "training_support.hpp"

/// The rows of the invariant table as functions, so that a test may also ask for them
/// to fail.
namespace tessera::testing {

using Sets = std::vector<std::string>;
using Tensors = std::map<std::string, std::vector<double>>;

Sets with(Sets sets, const Sets& more);

/// The first value that is not within a relative tolerance, in words; empty when all are.
std::string difference(const std::vector<double>& got,
                       const std::vector<double>& want,
                       double tolerance,
                       std::string_view what);
/// The first element that is not within 1e-5 of its tensor's largest value plus 1e-8 of the
/// largest of all, in words.
std::string difference(const Tensors& got, const Tensors& want);
/// The root of the mean square of what two lists of the same length differ by.
double rms(const std::vector<double>& a, const std::vector<double>& b);

/// What one layout differs in from one rank that computes in double precision (gradients, one
/// update) or single precision (losses and norms); empty where it agrees.
struct Findings {
  std::string losses, norms;  ///< over the first 20 steps
  std::string gradients;      ///< of the first step
  std::string update;         ///< parameters after one step of plain gradient descent
  bool none() const {
    return losses.empty() && norms.empty() && gradients.empty() && update.empty();
  }
};
std::string text(const Findings& found);
inline constexpr int kTableSteps = 20;
inline constexpr double kLossTolerance = 2e-6, kNormTolerance = 1e-5;

/// Trains under `sets`, with components from `host`, and compares with one rank of the components
/// that ship. `model` changes what is trained, on both sides. `two_hosts` as in TrainOptions.
Findings check_invariant(const PluginHost& host,
                         const Sets& sets,
                         const Sets& model = {},
                         bool two_hosts = false);

/// tiny_config() on one rank, trained once a process.
const Training& one_rank(int steps, const Sets& model = {});

/// How the values of a layout with 16-bit compute relate to those of one rank.
enum class Rounding {
  same,   ///< every operation has one rank's shapes and values: fp32 sums take another order
  other,  ///< sums over ranks are rounded elsewhere
};

/// What computes in 16 bits.
struct Narrow {
  std::string compute;  ///< "bf16" or "fp16"
  std::string device = "reference";
};
/// The settings of that compute, with a loss scale that never changes.
Sets in_16_bits(const Narrow& narrow);

/// As check_invariant, in 16 bits: a layout is at most twice as far from one rank of the same
/// compute as that one is from fp32 (gradients, one update: from double precision). Where roundings
/// are the same, the first step's loss, norm, gradients and update differ by what fp32 sums do.
Findings check_narrow(const PluginHost& host,
                      const Narrow& narrow,
                      const Sets& sets,
                      Rounding rounding,
                      const Sets& model = {});

/// Gradients that replicas send each other in bf16, whatever the compute dtype: at most three times
/// as far from one rank that rounds nothing (losses, norms: fp32; gradients, one update: double
/// precision) as one rank of bf16 compute is, which is what a layout of bf16 compute may be.
Findings check_narrow_gradients(const PluginHost& host, const Narrow& in, const Sets& sets);

/// fp16 with a loss scale that overflows at first and grows later: the same steps are skipped as on
/// one rank, the scale is the same after each step, and losses are as near as check_narrow's. What
/// differs, in words.
std::string check_loss_scale(const PluginHost& host,
                             const std::string& device,
                             const Sets& sets,
                             const Sets& model = {});

}  // namespace tessera::testing
