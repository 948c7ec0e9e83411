#pragma once
#include <string>
#include <string_view>

#include "kernel/schedule/timeline.hpp"

namespace tessera {

/// A picture of a timeline in units as text, one line a rank, time to the right: "F0" is the
/// forward of microbatch 0 ("F0.1" of its chunk 1).
std::string draw(const Timeline& timeline, int chunks);

/// Draws all ranks' orders with unit costs: B takes two units, its halves one each.
std::string draw(const PipelineSchedule& schedule, const PipelineShape& shape);

/// As SVG, to scale, with a time axis in `unit`, the timeline's; every block names itself and its
/// times when pointed at.
std::string draw_svg(const Timeline& timeline,
                     int chunks,
                     std::string_view title,
                     std::string_view unit);

/// The unit of a schedule by itself (unit_cost).
inline constexpr std::string_view kScheduleUnit = "forwards of a microbatch; a backward takes two";

/// A schedule by itself, verified; empty where there are too many blocks to look at.
std::string draw_svg(const PipelineSchedule& schedule,
                     const PipelineShape& shape,
                     std::string_view title);

}  // namespace tessera
