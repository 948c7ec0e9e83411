#pragma once
#include <string>

#include "local_world.hpp"

namespace tessera::testing {

/// A layer between tensor regions, as a model builds it: it reads and writes the slot "hidden"
/// [own rows, features], or makes it of "tokens" (an embedding), or ends in a loss (a head).
struct LayerCase {
  std::string type;  ///< "geglu"; its scope and the path of its table are "layer"
  Given given = {};  ///< what its parent would set
  /// LocalWorldOptions::values: {"model.hidden", 16}, {"layer.down.type", "lora"}
  Given values = {};
  i64 features = 16;       ///< of "hidden"
  i64 vocabulary = 32;     ///< "tokens" and "targets" are below it
  BatchShape batch{2, 8};  ///< its rows divide among `tensor` ranks
  i64 tensor = 2;
  std::string device = "reference";
  /// Relative to the largest value of the same tensor; everything is computed in fp64.
  double tolerance = 1e-10;
};

/// Runs the layer, in training, on one rank, and on `tensor` ranks with and without sequence
/// parallelism, with the same inputs and parameters (random ones: a bias of zeros hides that it is
/// added twice). Compares results, losses (summed where LossSpec says partial), the gradient of
/// "hidden", and the gradients of the parameters after the sums that their placements ask for.
/// Finds a partial gradient that is not summed, a row bias that every rank adds, an input that
/// enters a region without its gradient being summed, random numbers of other rows. Empty when all
/// agree, else one line per problem, errors on several ranks included. Throws what the layer throws
/// on one rank.
TESSERA_API std::string layer_check(const LocalWorld& world, const LayerCase& layer);

}  // namespace tessera::testing
