#pragma once
#include <span>
#include <vector>

#include "tessera/plan.hpp"

namespace tessera {

/// A run of consecutive phases of one chunk that becomes one graph (forward, and one backward).
struct Segment {
  int chunk = 0;
  int first_phase = 0, last_phase = 0;  ///< inclusive
};

struct GraphArguments {};

/// Chooses what is captured. Plugin kind "graph". The kernel allots slots, captures, checks
/// lifetimes and replays. A segment must not contain a dynamic phase.
class TESSERA_API GraphPolicy {
 public:
  static constexpr std::string_view kKind = "graph";
  using Arguments = GraphArguments;

  virtual ~GraphPolicy();
  virtual std::vector<Segment> choose(std::span<const PhaseInfo> phases,
                                      const Plan& plan) const = 0;
};

}  // namespace tessera
