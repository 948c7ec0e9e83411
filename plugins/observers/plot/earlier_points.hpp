#pragma once
#include <string>

#include "chart.hpp"

namespace tessera {

/// Adds the losses up to and with step `last` from a metrics.jsonl (observer "metrics") to
/// `curves`; nothing when there is no such file. Lines of another form are passed over.
void read_earlier_points(const std::string& path, i64 last, Curves& curves);

}  // namespace tessera
