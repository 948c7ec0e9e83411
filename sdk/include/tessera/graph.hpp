#pragma once
#include <span>
#include <vector>

#include "tessera/plan.hpp"

namespace tessera {

/// A run of consecutive phases of one chunk that becomes graphs: one for the forward pass, and one
/// for the backward pass, or one for each half of it where the plan splits them.
struct CapturedRange {
  int chunk = 0;
  int first_phase = 0, last_phase = 0;  ///< inclusive
};

struct GraphArguments {};

/// Chooses what is captured. Plugin kind "graph". The kernel allots graph slots, captures, checks
/// lifetimes and replays. A captured range must not contain a dynamic phase.
class TESSERA_API GraphPolicy {
 public:
  static constexpr std::string_view kKind = "graph";
  using Arguments = GraphArguments;

  virtual ~GraphPolicy();
  virtual std::vector<CapturedRange> choose(std::span<const PhaseInfo> phases,
                                            const Plan& plan) const = 0;
};

}  // namespace tessera
