#pragma once
#include "tessera/schema.hpp"

namespace tessera {

/// What the layer with experts gives its dispatcher.
struct DispatcherConfig {
  i64 experts = 0, top_k = 0, rows_per_expert = 0;
  static void describe(Schema<DispatcherConfig>& s) {
    s.field("experts", &DispatcherConfig::experts, "experts of the layer")
        .given()
        .at_least(1)
        .at_most(kMostExperts);
    s.field("top_k", &DispatcherConfig::top_k, "choices of a token")
        .given()
        .at_least(1)
        .at_most(kMostExperts);
    s.field("rows_per_expert",
            &DispatcherConfig::rows_per_expert,
            "places that each rank has for rows of each expert; 0: as many as there are rows")
        .given()
        .at_least(0)
        .at_most(kMostElements);
  }
};

}  // namespace tessera
