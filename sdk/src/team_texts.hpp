#pragma once
#include <string>

namespace tessera {

/// The error of the calling thread's team that is smaller than it was asked to be.
std::string small_team_text(int asked, int got);

}  // namespace tessera
