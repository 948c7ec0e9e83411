#pragma once
#include <string_view>
#include <vector>

#include "tessera/operation.hpp"

namespace tessera {

/// momentum = beta · momentum + g with g = grad · gradient scale; grad = g + beta · momentum
/// (Nesterov), on all shards at once. A skipped step leaves momentum, and grad is 0.
struct MuonMomentumArgs {
  static constexpr std::string_view kName = "muon.momentum";
  static constexpr int kTensors = 5, kOutputs = 2;
  static constexpr TensorRule kRules[] = {{"scalars", TypeRule::doubles},
                                          {"ranges", TypeRule::integers},
                                          {"hyper", TypeRule::doubles},
                                          {"grad", TypeRule::data},
                                          {"momentum", TypeRule::floating}};
  TensorArg scalars, ranges, hyper, grad, momentum;
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

/// main -= rate · (scale · grad + decay · main), rounded to compute (optional); grad = 0. A skipped
/// step leaves main.
struct MuonApplyArgs {
  static constexpr std::string_view kName = "muon.apply";
  static constexpr int kTensors = 6, kOutputs = 3;
  static constexpr TensorRule kRules[] = {{"scalars", TypeRule::doubles},
                                          {"ranges", TypeRule::integers},
                                          {"hyper", TypeRule::doubles},
                                          {"grad", TypeRule::data},
                                          {"main", TypeRule::data},
                                          {"compute", TypeRule::floating}};
  TensorArg scalars, ranges, hyper, grad, main, compute;
  double scale = 1;
  static void infer(MuonApplyArgs& args);
};

/// The operations' kernels for devices whose memory the CPU addresses.
std::vector<Kernel> muon_kernels();
/// The same for the device "cuda"; where TESSERA_HAVE_CUDA.
std::vector<Kernel> muon_gpu_kernels();

}  // namespace tessera
