#include "kernel/planner/repetition.hpp"

#include <algorithm>

#include "kernel/schedule/verify.hpp"
#include "tessera/error.hpp"

namespace tessera {

namespace {

using StageMessages = std::vector<PlanAction::Message>;

bool like(const StageMessages& a, const StageMessages& b, int shift) {
  return std::ranges::equal(a, b, [&](const auto& x, const auto& y) {
    return x.peer == y.peer && x.stage == y.stage && x.forward == y.forward &&
           x.microbatch + shift == y.microbatch;
  });
}

// Does action `j` of `b` do with a microbatch what action `i` of `a` does with the one that is
// `shift` earlier? What it comes after is the verifier's business: the executor keeps the order.
bool like(const Plan& a, std::size_t i, const Plan& b, std::size_t j, int shift) {
  const PlanAction &x = a.actions[i], &y = b.actions[j];
  if (x.kind != y.kind || x.chunk != y.chunk || x.phase != y.phase || x.bucket != y.bucket) {
    return false;
  }
  if (x.microbatch < 0 ? y.microbatch >= 0 : x.microbatch + shift != y.microbatch) return false;
  const bool released = std::ranges::equal(x.released, y.released, [&](int of_x, int of_y) {
    return static_cast<int>(i) - of_x == static_cast<int>(j) - of_y;
  });
  return released && like(x.sends, y.sends, shift) && like(x.receives, y.receives, shift);
}

}  // namespace

std::optional<Repetition> repetition(const Plan& many, const Plan& few) {
  const int more = many.shape.microbatches - few.shape.microbatches;
  const int group = many.shape.ranks;  // of microbatches, in which schedules go round
  const std::size_t n = few.actions.size();
  if (more <= 0 || more % group != 0 || many.actions.size() <= n) return {};
  const std::size_t inserted = many.actions.size() - n;
  const auto times = static_cast<std::size_t>(more / group);
  if (inserted % times != 0) return {};
  const std::size_t period = inserted / times;
  std::size_t same = 0, tail = 0;  // actions at the beginning, and at the end
  while (same < n && like(few, same, many, same, 0)) ++same;
  while (tail < n && like(few, n - 1 - tail, many, many.actions.size() - 1 - tail, more)) ++tail;
  if (same + tail < n || same < 2 * period) return {};
  // The latest place: what fills a pipeline is long past.
  const Repetition found{same, period, times};
  for (std::size_t i = found.end - period; i < found.end + inserted; ++i) {
    if (!like(many, i - period, many, i, group)) return {};
  }
  return found;
}

int enough_microbatches(const PipelineSchedule& schedule, int ranks, int microbatches) {
  // Each chunk of each rank holds some at once; then four rounds, of which two are compared.
  const int rounds = schedule.chunks() + 4;
  const int few = microbatches % ranks + rounds * ranks;
  if (few >= microbatches) return microbatches;
  try {
    verify(schedule, shape_of(schedule, ranks, few, true));
    return few;
  } catch (const Error&) {
    return microbatches;
  }
}

}  // namespace tessera
