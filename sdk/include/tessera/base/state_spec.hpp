#pragma once
#include <memory>
#include <string>
#include <vector>

#include "tessera/mesh.hpp"
#include "tessera/parameter.hpp"

namespace tessera {

/// A state tensor of a rule: of the parameter's shape, element by element, or of a shape of its
/// own. A factored second moment of matrices keeps a mean for each row and each column:
///
///     {.name = "rows", .shape = [](const Parameter& p) -> StateShape { return {{p.logical[0], 0}};
///     }}
///     {.name = "columns", .shape = [](const Parameter& p) -> StateShape { return {{p.logical[1],
///     1}}; }}
///
/// `{}` is one number a parameter, `{{n}, {n}}` a preconditioner of n × n that every rank which
/// updates the parameter has whole. A rule with such state states kWholeParameters (optimizer.hpp).
struct StateSpec {
  std::string name;                        ///< "first_moment": its name in checkpoints
  bool (*of)(const Parameter&) = nullptr;  ///< which parameters have it; nullptr: all
  /// For a running mean, its beta: the part of itself that a step keeps. A narrow dtype, which
  /// rounds small changes away, is refused where a step that keeps so much would change nothing. 0:
  /// no mean.
  double keeps = 0;
  /// Its logical shape, the same under every layout; nullptr: that of the parameter. Ranks that cut
  /// the parameter hold parts of the dimensions that lie along a cut one, and equal values of all
  /// others: the rule sums over the group of the cut what such a value is made of.
  StateShape (*shape)(const Parameter&) = nullptr;
  double initial = 0;  ///< of every element
};

/// The logical tensor of a state with a shape of its own, as this rank holds it; nullptr where
/// `spec` has the parameter's shape. Throws Error when a dimension is not that of the parameter
/// that it lies along.
TESSERA_API std::shared_ptr<const LogicalTensor> own_state(const StateSpec& spec,
                                                           const Parameter& parameter,
                                                           const Mesh& mesh);

}  // namespace tessera
