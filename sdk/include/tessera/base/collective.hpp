#pragma once
#include <algorithm>
#include <charconv>
#include <concepts>
#include <cstring>
#include <string_view>
#include <vector>

#include "tessera/base/api.hpp"
#include "tessera/base/hash.hpp"
#include "tessera/tensor.hpp"

namespace tessera {

/// What the collectives of a process group are for. A device has one communication stream for each
/// lane, on which they start in launch order; lanes do not wait for each other, so that a sum which
/// the next operation reads is not held up by gradients that are needed at the end of the step.
enum class CommLane : u8 {
  critical,  ///< inside layers: the next operation reads the result
  exchange,  ///< activations and gradients between pipeline stages
  bulk,      ///< gradients, norms, statistics
  experts,   ///< inside layers of experts: sums of other layers do not wait for their exchanges
};
inline constexpr int kCommLanes = 4;
/// "critical", "exchange", "bulk", "experts".
constexpr std::string_view comm_lane_name(CommLane lane) {
  constexpr std::string_view kNames[kCommLanes] = {"critical", "exchange", "bulk", "experts"};
  return kNames[static_cast<int>(lane)];
}
/// Does the layer read the result next, so that its time counts in full?
constexpr bool inside_layers(CommLane lane) {
  return lane == CommLane::critical || lane == CommLane::experts;
}
/// The streams of a device, by index: "compute", then one for each lane.
inline constexpr int kDeviceStreams = 1 + kCommLanes;
constexpr std::string_view device_stream_name(int index) {
  return index == 0 ? "compute" : comm_lane_name(static_cast<CommLane>(index - 1));
}

enum class ReduceOp : u8 { sum, max, min };
enum class CollectiveKind : u8 {
  all_reduce,
  all_gather,
  reduce_scatter,
  broadcast,
  all_to_all,
  exchange,
  barrier,
};
TESSERA_API std::string_view collective_name(CollectiveKind kind);
/// Is it made of transfers, which concern only their two ends?
constexpr bool moves_parts(CollectiveKind kind) {
  return kind == CollectiveKind::all_to_all || kind == CollectiveKind::exchange;
}

/// What a collective is called in errors and in the flight recorder. Made and copied without
/// allocating: a name of more than kMost bytes is cut, but its hash is that of all of it.
class CallName {
 public:
  static constexpr std::size_t kMost = 79;

  CallName() = default;
  template <std::convertible_to<std::string_view> Text>
  CallName(const Text& text) {  // NOLINT(google-explicit-constructor): a text is a name
    append(std::string_view(text));
  }

  CallName& append(std::string_view text) {
    hash_ = hash64(text, hash_);
    const std::size_t taken = std::min(text.size(), kMost - length_);
    std::memcpy(text_ + length_, text.data(), taken);
    length_ = static_cast<u8>(length_ + taken);
    return *this;
  }
  CallName& append(i64 number) {
    char digits[24];
    const auto end = std::to_chars(digits, digits + sizeof digits, number).ptr;
    return append(std::string_view(digits, static_cast<std::size_t>(end - digits)));
  }

  std::string_view view() const { return {text_, length_}; }
  /// Hash of all appended pieces, in order, also of what was cut.
  u64 hash() const { return hash_; }

 private:
  u64 hash_ = 0;
  u8 length_ = 0;
  char text_[kMost] = {};
};

/// One peer's part of an exchange or of an all_to_all.
struct Transfer {
  int peer = 0;  ///< index within the group
  TensorArg tensor;
};

/// What every member passes for one collective. Tensors are dense. Kind, name, dtype, operator and
/// sizes (but for transfers) are the same on every member, or the collective fails on all.
struct Collective {
  CollectiveKind kind = CollectiveKind::barrier;
  CallName name;     ///< of the call site, for errors and the flight recorder
  TensorArg input;   ///< all_reduce, broadcast: also the output
  TensorArg output;  ///< all_gather: size × input; reduce_scatter: input / size
  ReduceOp op = ReduceOp::sum;
  int root = 0;
  std::vector<Transfer> sends, receives;
};

}  // namespace tessera
