#pragma once
#include "tessera/rotary.hpp"

namespace tessera {

/// A table of rotary angles, [positions, 2, pairs], and how features turn by it.
struct Angles {
  const Buffer* table = nullptr;
  i64 features = 0;  ///< of a head, that turn
  bool interleaved = false;
};

/// The table for heads of `head_size` features, in `positions` rows. All layers of a rank whose
/// features turn alike share one. Rejects `size_key` of the layer where a head has half a pair.
Angles make_angles(const Component<Rotary>& rotary,
                   i64 head_size,
                   std::string_view size_key,
                   i64 positions,
                   BuildContext& build);

}  // namespace tessera
