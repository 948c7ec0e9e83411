#pragma once
#include <string>

#include "tessera/schedule.hpp"

namespace tessera {

/// A picture of all pipeline ranks' orders as text, one line a rank, time to the right: "F0" is the
/// forward of microbatch 0 ("F0.1" of its chunk 1); B takes two units, its halves one each.
std::string draw(const PipelineSchedule& schedule, const PipelineShape& shape);

}  // namespace tessera
