#include "schedule_check.hpp"

#include "kernel/schedule/verify.hpp"
#include "tessera/error.hpp"

namespace tessera::testing {

std::string schedule_check(const PipelineSchedule& schedule,
                           int ranks,
                           const std::vector<int>& microbatches) {
  for (const int count : microbatches) {
    for (const bool training : {true, false}) {
      const PipelineShape shape{
          .ranks = ranks, .chunks = schedule.chunks(), .microbatches = count, .training = training};
      try {
        verify(schedule, shape);
      } catch (const Error& error) {
        return fmt::format(
            "{} microbatches{}: {}", count, training ? "" : ", forward only", error.what());
      }
    }
  }
  return "";
}

}  // namespace tessera::testing
