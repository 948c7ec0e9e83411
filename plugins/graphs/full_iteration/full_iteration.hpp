#pragma once
#include <fmt/format.h>

#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tessera/error.hpp"
#include "tessera/graph.hpp"

namespace tessera {

/// One graph of a whole training step: all microbatches, messages, sums of gradients, the update.
class FullIteration final : public GraphPolicy {
 public:
  using Config = NoConfig;
  FullIteration(const Config&, GraphArguments arguments) : arguments_(std::move(arguments)) {}

  void do_check(std::span<const PhaseInfo> blocks) const override {
    std::set<std::string> dynamic;
    for (const PhaseInfo& phase : blocks) {
      if (phase.shapes == Shapes::dynamic) dynamic.insert(fmt::format("\"{}\"", phase.scope));
    }
    if (dynamic.empty()) return;
    arguments_.reject("type",
                      fmt::format("\"full_iteration\" captures every phase, and the shapes of {} "
                                  "depend on data; pad_to_capacity or expert_choice fixes them, "
                                  "type = \"partial\" captures the other phases",
                                  fmt::join(dynamic, ", ")));
  }
  std::vector<CapturedRange> do_choose(std::span<const PhaseInfo>, const Plan&) const override {
    return {};
  }
  bool do_whole_step() const override { return true; }

 private:
  GraphArguments arguments_;
};

}  // namespace tessera
