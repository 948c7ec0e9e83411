#pragma once
#include <cstddef>
#include <optional>

#include "tessera/plan.hpp"
#include "tessera/schedule.hpp"

namespace tessera {

/// A plan of many microbatches as one of few, a stretch of which is run again and again: in the
/// middle of a pipeline's step each group of microbatches is treated as the one before.
struct Repetition {
  std::size_t end = 0;     ///< of the stretch, in the actions of the few
  std::size_t period = 0;  ///< actions of the stretch
  std::size_t times = 0;   ///< that the many run it more often
  /// The action of the few that stands for action `index` of the many.
  std::size_t source(std::size_t index) const {
    if (index < end) return index;
    if (index >= end + times * period) return index - times * period;
    return end - period + (index - end) % period;
  }
  bool operator==(const Repetition&) const = default;
};

/// How `few` stands for `many`, plans of one rank. The stretch is preceded by an equal one. Returns
/// nothing where an action of `many` is not like the one that would stand for it.
std::optional<Repetition> repetition(const Plan& many, const Plan& few);

/// The fewest microbatches that show what `microbatches` of them repeat: as many where that would
/// not be fewer.
int enough_microbatches(const PipelineSchedule& schedule, int ranks, int microbatches);

}  // namespace tessera
