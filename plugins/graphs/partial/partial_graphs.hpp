#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tessera/error.hpp"
#include "tessera/graph.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

/// Captures runs of neighbouring phases of chosen scopes. What depends on data runs as it is, so
/// that a mixture of experts may end a graph right before its rows are dispatched.
class PartialGraphs final : public GraphPolicy {
 public:
  struct Config {
    std::vector<std::string> scope;
    std::string join = "layer";
    static void describe(Schema<Config>& s) {
      s.field("scope",
              &Config::scope,
              "phases of blocks that are captured, by scope: \"attn\", \"mlp\", \"moe_router\", "
              "\"moe_preprocess\", …; empty: every phase of the model whose shapes are fixed")
          .megatron("--cuda-graph-scope")
          .also("--cuda-graph-modules");
      s.field("join",
              &Config::join,
              "neighbouring phases become one graph within a \"layer\", or within a \"chunk\" of "
              "the model: fewer and longer graphs, for which parameters have to be there earlier")
          .one_of({"layer", "chunk"});
    }
  };

  PartialGraphs(Config config, GraphArguments& arguments)
      : config_(std::move(config)), arguments_(arguments) {}

  void do_check(std::span<const PhaseInfo> blocks) const override {
    for (const std::string& scope : config_.scope) {
      const auto named = [&](const PhaseInfo& phase) { return phase.scope == scope; };
      if (std::ranges::none_of(blocks, named)) {
        arguments_.reject(
            "scope",
            fmt::format("no phase is called {}; blocks have {}", quote(scope), scopes_of(blocks)));
      }
      const bool captured = std::ranges::any_of(blocks, [&](const PhaseInfo& phase) {
        return named(phase) && phase.shapes == Shapes::fixed;
      });
      if (captured) continue;
      arguments_.reject("scope",
                        fmt::format("the shapes of \"{}\" depend on data; pad_to_capacity or "
                                    "expert_choice fixes them",
                                    scope));
    }
  }

  std::vector<CapturedRange> do_choose(std::span<const PhaseInfo> phases,
                                       const Plan&) const override {
    std::vector<CapturedRange> ranges;
    const PhaseInfo* before = nullptr;  // captured too
    for (const PhaseInfo& phase : phases) {
      const bool taken = takes(phase);
      if (taken && before != nullptr && joins(*before, phase)) {
        ranges.back().last_phase = phase.phase;
      } else if (taken) {
        ranges.push_back({phase.chunk, phase.phase, phase.phase});
      }
      before = taken ? &phase : nullptr;
    }
    return ranges;
  }

 private:
  bool takes(const PhaseInfo& phase) const {
    if (phase.shapes != Shapes::fixed || phase.layer < 0) return false;
    return config_.scope.empty() ||
           std::ranges::find(config_.scope, phase.scope) != config_.scope.end();
  }
  // Joins phases of a layer of which only some are recomputed, too, which is an error: a policy
  // must not end a graph where nobody asked for it.
  bool joins(const PhaseInfo& before, const PhaseInfo& next) const {
    if (before.chunk != next.chunk) return false;
    if (before.layer == next.layer) return true;
    return config_.join == "chunk" && before.recompute == next.recompute;
  }
  static std::string scopes_of(std::span<const PhaseInfo> blocks) {
    std::vector<std::string> scopes;
    for (const PhaseInfo& phase : blocks) {
      if (std::ranges::find(scopes, phase.scope) == scopes.end()) scopes.push_back(phase.scope);
    }
    return fmt::format("{}", fmt::join(scopes, ", "));
  }

  Config config_;
  GraphArguments arguments_;
};

}  // namespace tessera
