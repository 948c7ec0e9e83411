#pragma once
#include <span>
#include <vector>

#include "tessera/graph.hpp"

namespace tessera {

/// Captures nothing: every launch is made as the phases run.
class NoGraphs final : public GraphPolicy {
 public:
  using Config = NoConfig;
  NoGraphs(const Config&, GraphArguments&) {}
  std::vector<CapturedRange> do_choose(std::span<const PhaseInfo>, const Plan&) const override {
    return {};
  }
};

}  // namespace tessera
