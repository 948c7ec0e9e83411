#pragma once
#include <memory>
#include <string_view>

#include "sdk/src/shared/progress.hpp"
#include "tessera/context.hpp"
#include "tessera/device/communicator.hpp"
#include "tessera/device/core_ops.hpp"
#include "tessera/mesh.hpp"

namespace tessera {

/// What one rank computes and communicates with, real or not. Used on the rank's thread.
struct Rank {
  // Destroyed from the last to the first.
  std::shared_ptr<Progress> progress;          ///< what it does; none of a dry rank
  std::shared_ptr<Communicator> communicator;  ///< none in a world of one
  std::shared_ptr<Device> device;
  std::unique_ptr<Mesh> mesh;
  std::unique_ptr<CoreOps> ops;
  /// Units of hardware by ranks, below 1 where ranks share some (device.share). Only rank 0 knows.
  double units_per_rank = 1;

  /// A context on the device's compute stream and pool, without a tape.
  Context context() const;
  /// Tells the other ranks that this one fails.
  void abort(std::string_view reason) const noexcept;
};

/// Makes a rank of that layout with all its groups; all ranks call it at once. `communicator` is
/// null in a world of one. The rank writes what it does to `progress`.
Rank join_rank(const Layout& layout,
               i64 rank,
               std::shared_ptr<Communicator> communicator,
               std::shared_ptr<Device> device,
               std::shared_ptr<Progress> progress = nullptr);

}  // namespace tessera
