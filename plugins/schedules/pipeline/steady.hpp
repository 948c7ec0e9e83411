#pragma once
#include <string_view>
#include <vector>

#include "tessera/error.hpp"
#include "tessera/schedule.hpp"

namespace tessera {

/// The key `overlap` of a configuration with that member.
template <class C>
void describe_overlap(Schema<C>& s) {
  s.field("overlap",
          &C::overlap,
          "pair each forward with a backward of another microbatch and interleave their phases, so "
          "that rows on their way to experts and back hide behind what the other pass computes; "
          "1f1b and interleaved_1f1b then have more warm-up forwards")
      .megatron("--overlap-moe-expert-parallel-comm");
}

/// [schedule] of schedules whose forwards and backwards may overlap.
struct OverlapConfig {
  bool overlap = false;
  static void describe(Schema<OverlapConfig>& s) { describe_overlap(s); }
};

inline void check_overlap(bool overlap, const PipelineShape& shape) {
  if (!overlap || !shape.training || shape.microbatches > 1) return;
  fail_config(
      "schedule.overlap: a step has 1 microbatch, and a forward overlaps the backward of another "
      "one: change batch.global or batch.micro, or take overlap away");
}

/// `warmup` forwards, then one forward and one backward in turn, then the backwards that are left.
inline std::vector<Action> one_by_one(const std::vector<Action>& forwards,
                                      const std::vector<Action>& backwards,
                                      int warmup) {
  std::vector<Action> actions(forwards.begin(), forwards.begin() + warmup);
  auto backward = backwards.begin();
  for (auto forward = forwards.begin() + warmup; forward != forwards.end(); ++forward) {
    actions.push_back(*forward);
    if (backward != backwards.end()) actions.push_back(*backward++);
  }
  actions.insert(actions.end(), backward, backwards.end());
  return actions;
}

/// One pass of every microbatch.
inline std::vector<Action> in_turn(Action::Kind kind, int microbatches) {
  std::vector<Action> actions;
  actions.reserve(static_cast<std::size_t>(microbatches));
  for (int i = 0; i < microbatches; ++i) actions.push_back({kind, i});
  return actions;
}

}  // namespace tessera
