#include "schedule_check.hpp"

#include "kernel/schedule/orders.hpp"
#include "kernel/schedule/verify.hpp"

namespace tessera::testing {

std::string schedule_check(const PipelineSchedule& schedule,
                           int ranks,
                           const std::vector<int>& microbatches) {
  for (const int count : microbatches) {
    for (const bool training : {true, false}) {
      try {
        verify(schedule, shape_of(schedule, ranks, count, training));
      } catch (const std::exception& error) {
        return fmt::format(
            "{} microbatches{}: {}", count, training ? "" : ", forward only", error.what());
      }
    }
  }
  return "";
}

}  // namespace tessera::testing
