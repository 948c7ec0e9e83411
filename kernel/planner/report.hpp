#pragma once
#include <string>

#include "kernel/planner/advice.hpp"

namespace tessera {

/// The report as text for people.
std::string report_text(const Prediction& prediction);
/// Does it fit, is the bubble long, and what to change; lines that follow the report.
std::string advice_text(const Prediction& prediction, const Advice& advice);
/// One JSON object, for programs: every number of the text and the members of all groups. Seconds,
/// bytes, FLOPs; ranks of a class are named by their first.
std::string report_json(const Prediction& prediction, const Advice* advice = nullptr);

}  // namespace tessera
