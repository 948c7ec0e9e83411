#pragma once
#include "tessera/schema.hpp"

namespace tessera {

/// What the layer with experts gives its dispatcher.
struct DispatcherConfig {
  i64 experts = 0, top_k = 0, rows_per_expert = 0;
  static void describe(Schema<DispatcherConfig>& s) {
    s.field("experts", &DispatcherConfig::experts, "experts of the layer").given();
    s.field("top_k", &DispatcherConfig::top_k, "choices of a token").given();
    s.field("rows_per_expert",
            &DispatcherConfig::rows_per_expert,
            "places that each rank has for rows of each expert; 0: as many as there are rows")
        .given();
  }
};

}  // namespace tessera
