#pragma once
#include <string>

#include "kernel/plan/predict.hpp"

namespace tessera {

/// The report as text for people.
std::string report_text(const Prediction& prediction);
/// One JSON object, for programs: every number of the text and the members of all groups. Seconds,
/// bytes, FLOPs; ranks of a class are named by their first.
std::string report_json(const Prediction& prediction);

}  // namespace tessera
