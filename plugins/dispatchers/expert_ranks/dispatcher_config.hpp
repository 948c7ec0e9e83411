#pragma once
#include "tessera/schema.hpp"

namespace tessera {

/// What the layer with experts gives its dispatcher.
struct DispatcherConfig {
  i64 experts = 0, top_k = 0;
  static void describe(Schema<DispatcherConfig>& s) {
    s.field("experts", &DispatcherConfig::experts, "experts of the layer").given();
    s.field("top_k", &DispatcherConfig::top_k, "choices of a token").given();
  }
};

}  // namespace tessera
