#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "invariant_support.hpp"

/// How near the routers of a training come to another choice. A choice is discontinuous: layouts
/// agree only where the gap between the last score that is taken and the next one is wider than
/// what their roundings do to the two.
namespace tessera::testing {

/// Scores of which the largest are taken, as the kernels compare them: a row's logits (`top_k`), an
/// expert's shares of the rows of a sequence (`expert_choice`), the weights of an expert's choices
/// in a sequence (a capacity that drops by weight).
struct Decision {
  std::vector<double> scores;
  std::size_t taken = 0;  ///< fewer than the scores
  /// Between the last score that is taken and the next one.
  double gap() const;
};

/// All decisions of one rank's first kTableSteps steps, in the order in which they are made; once a
/// process for each `sets`, over tiny_config(). The router is `model.block.mlp.router`.
const std::vector<Decision>& decisions(const Sets& sets);

struct RouterGaps {
  std::size_t decisions = 0;
  double smallest = 0;  ///< gap of one rank
  double noise = 0;     ///< by which a score differs from that of `exact`, at most
  /// The smallest ratio of a decision's gap to the noise of its scores. Two scores with the noise
  /// move by twice that towards each other.
  double ratio = 0;
};
/// The gaps of one rank with `sets`, whose roundings are what it differs in from `exact`.
RouterGaps router_gaps(const Sets& sets, const Sets& exact);
std::string text(const RouterGaps& gaps);

}  // namespace tessera::testing
