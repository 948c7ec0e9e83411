#pragma once
#include <string>
#include <vector>

#include "tessera/evaluation.hpp"

namespace tessera {

/// `context` and what follows it, which is scored. Where both are too long for the model, the
/// context loses its beginning. Throws ConfigError, which begins with `where`, where the context
/// has no token, or what follows has none or too many.
ScoredText continued(std::vector<i32> context,
                     const std::vector<i32>& following,
                     const TextScorer& scorer,
                     const std::string& where);

}  // namespace tessera
