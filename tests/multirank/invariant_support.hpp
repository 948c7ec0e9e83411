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
inline constexpr int kTableSteps = 20;
inline constexpr double kLossTolerance = 2e-6, kNormTolerance = 1e-5;

/// Trains under `sets`, with components from `host`, and compares with one rank of the components
/// that ship. `model` changes what is trained, on both sides.
Findings check_invariant(const PluginHost& host, const Sets& sets, const Sets& model = {});

/// tiny_config() on one rank, trained once a process.
const Training& one_rank(int steps, const Sets& model = {});

}  // namespace tessera::testing
