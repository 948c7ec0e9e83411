#pragma once
#include <string_view>
#include <vector>

#include "tessera/operation.hpp"

namespace tessera {

/// momentum = beta · momentum + g with g = grad · gradient scale; out = g + beta · momentum
/// (Nesterov); grad = 0. A skipped step leaves momentum, and out is 0.
struct MuonMomentumArgs {
  static constexpr std::string_view kName = "muon.momentum";
  static constexpr int kTensors = 4, kOutputs = 3;
  static constexpr TensorRule kRules[] = {{"scalars", TypeRule::doubles},
                                          {"grad", TypeRule::data},
                                          {"momentum", TypeRule::data},
                                          {"out", TypeRule::data}};
  TensorArg scalars, grad, momentum, out;
  double beta = 0;
  static void infer(MuonMomentumArgs& args);
};

/// x /= its Frobenius norm.
struct MuonNormalizeArgs {
  static constexpr std::string_view kName = "muon.normalize";
  static constexpr int kTensors = 1, kOutputs = 1;
  static constexpr TensorRule kRules[] = {{"x", TypeRule::data}};
  TensorArg x;
  static void infer(MuonNormalizeArgs& args);
};

/// out = a · x + b · y; out may be x.
struct MuonCombineArgs {
  static constexpr std::string_view kName = "muon.combine";
  static constexpr int kTensors = 3, kOutputs = 1;
  static constexpr TensorRule kRules[] = {
      {"x", TypeRule::data}, {"y", TypeRule::data}, {"out", TypeRule::data}};
  TensorArg x, y, out;
  double a = 0, b = 0;
  static void infer(MuonCombineArgs& args);
};

/// main -= rate · (scale · x + decay · main), with rate and decay of `hyper` fp64 [1, 2]. Nothing
/// in a skipped step.
struct MuonApplyArgs {
  static constexpr std::string_view kName = "muon.apply";
  static constexpr int kTensors = 4, kOutputs = 1;
  static constexpr TensorRule kRules[] = {{"scalars", TypeRule::doubles},
                                          {"hyper", TypeRule::doubles},
                                          {"x", TypeRule::data},
                                          {"main", TypeRule::data}};
  TensorArg scalars, hyper, x, main;
  double scale = 0;
  static void infer(MuonApplyArgs& args);
};

/// Of these operations, for devices whose memory the CPU addresses.
std::vector<Kernel> muon_kernels();

}  // namespace tessera
