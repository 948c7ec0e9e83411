// Experts by the row's place in the batch: an operation that maps row ids to experts.
#pragma once
#include <tessera/build.hpp>
#include <tessera/random.hpp>

namespace example {

using namespace tessera;

enum class Loads : u8 {
  balanced,  // every expert has equally many rows
  hot,       // the first top_k experts have all of them
  empty,     // the upper half of the experts has none
  rotating,  // each sample is hot for others
};

// experts i32 [n, top_k] of rows with these ids, i64 [n].
struct ForcedLoadsArgs {
  static constexpr std::string_view kName = "example.forced_loads";
  static constexpr int kTensors = 2, kOutputs = 1;
  static constexpr TensorRule kRules[] = {{"row_ids", TypeRule::integers},
                                          {"experts", TypeRule::indices}};
  TensorArg row_ids, experts;
  Loads loads = Loads::balanced;
  i64 top_k = 1, all = 1;
  static void infer(ForcedLoadsArgs& args) {
    infer_output(args.experts, {args.row_ids.shape[0], args.top_k}, DType::i32, kName);
  }
};

// The expert of choice `choice` of a row, different ones for each of the row's top_k choices.
inline i64 expert_of(const ForcedLoadsArgs& args, i64 row, i64 choice) {
  const i64 in_turn = row_position(row) * args.top_k + choice;
  switch (args.loads) {
    case Loads::hot:
      return choice;
    case Loads::empty:
      return in_turn % (args.all / 2);
    case Loads::rotating:
      return (row_sample(row) + choice) % args.all;
    case Loads::balanced:
      break;
  }
  return in_turn % args.all;
}

}  // namespace example
