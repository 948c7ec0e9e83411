#pragma once
#include <string>

#include "local_world.hpp"

namespace tessera::testing {

/// A token dispatcher among ranks that share experts.
struct DispatcherCase {
  std::string type;    ///< "alltoall"; its scope and the path of its table are "dispatcher"
  Layout layout = {};  ///< its expert × expert_tensor ranks share the experts
  i64 rows = 6;        ///< of each rank
  i64 features = 3;
  i64 experts = 8, top_k = 2;
  /// Every rank has `rows` places for each expert: what the layer gives as `rows_per_expert`. All
  /// shapes must be fixed then.
  bool padded = false;
  Given values = {};  ///< LocalWorldOptions::values
  u64 deferred_seed = 0;
};

/// Sends rows to experts that multiply them by a number of their own, and back, under several
/// loads: balanced, random, all rows to one expert, ranks without any row, dropped choices. Checks
/// against the contract of dispatcher.hpp: which rows arrive in which order with which weight, how
/// many each expert has, the sums that come back, the gradients of rows and weights, that all
/// bundle slots but the caller's are empty afterwards, that `meanwhile` is called once, and that a
/// second microbatch in flight is not mixed up with the first. Everything is computed in fp64.
/// Empty when all is right, else one line per problem, errors that the dispatcher throws included.
TESSERA_API std::string dispatcher_check(const LocalWorld& world, const DispatcherCase& of);

}  // namespace tessera::testing
