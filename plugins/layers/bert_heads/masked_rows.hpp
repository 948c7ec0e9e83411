#pragma once
#include "tessera/context.hpp"
#include "tessera/layer.hpp"

namespace tessera {

/// The rows of a microbatch that a mask selects, found on the device: as many places as there can
/// be such rows, so shapes do not depend on data. Places that are left over hold rows whose mask is
/// 0.
class MaskedRows {
 public:
  /// `mask` u8 [rows]; `places`: as many rows as it selects, or more.
  MaskedRows(Context& cx, const Tensor& mask, i64 places);

  /// [places, features] of rows [rows, features], tracked.
  Tensor of(Context& cx, const Tensor& rows) const;
  /// [places] of entries [rows] of any dtype, untracked.
  Tensor entries(Context& cx, const Tensor& entries) const;

 private:
  Tensor order_;  // i32 [places]
};

}  // namespace tessera
