#pragma once
#include <string_view>

#include "tessera/base/api.hpp"
#include "tessera/base/operation_rules.hpp"
#include "tessera/tensor.hpp"

namespace tessera {

/// Rotary positions (Su et al. 2021, "RoFormer", §3.2.2): each head's features turn in pairs, by
/// angles that grow with the position: (a, b) becomes (a cos − b sin, b cos + a sin). x, out
/// [n, heads, d], unit inner stride; out may be x. positions i64 [n]. table [P, 2, pairs]: cosines,
/// then sines, of each position's angles. The first 2 · pairs features of a head turn: feature j
/// with j + pairs, or 2j with 2j + 1 where `interleaved`; the others stay. `inverse` turns back,
/// which is the gradient. A position outside of the table gives NaN.
struct RotaryArgs {
  static constexpr std::string_view kName = "rotary";
  static constexpr int kTensors = 4, kOutputs = 1;
  static constexpr TensorRule kRules[] = {{"x", TypeRule::data},
                                          {"positions", TypeRule::integers},
                                          {"table", TypeRule::statistic},
                                          {"out", TypeRule::data}};
  TensorArg x, positions, table, out;
  bool interleaved = false, inverse = false;
  TESSERA_API static void infer(RotaryArgs& args);
};

}  // namespace tessera
