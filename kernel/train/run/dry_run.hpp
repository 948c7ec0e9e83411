#pragma once
#include <vector>

#include "kernel/train/setup/problem_list.hpp"
#include "kernel/train/setup/run_setup.hpp"
#include "tessera/mesh.hpp"

namespace tessera {

/// Ranks that do the same work: those of one pipeline and one context coordinate.
struct RankClass {
  i64 pipeline = 0, context = 0;
  i64 first = 0;  ///< the rank that stands for them
  i64 ranks = 0;
};
std::vector<RankClass> rank_classes(const RankGenerator& ranks);

/// Derives the setup of a run and adds to the list all that can be known to be wrong before a rank
/// starts: the setup's problems, then those of one training step of each class of ranks over absent
/// hardware, which finds shapes that do not fit, operations and dtypes that the device lacks,
/// losses and metrics that cannot be collected. Where a problem or a doubtful section keeps a step
/// from being tried, what does not rest on it is checked still. Errors of a component say where the
/// configuration chose it. `threads`: CPU threads of a rank.
RunSetup try_setup(const Resolved& config,
                   const PluginHost& plugins,
                   i64 world,
                   int threads,
                   ProblemList& problems,
                   DataUse data = DataUse::required);

/// The same for a run that starts: throws one ConfigError with all problems.
RunSetup checked_setup(const Resolved& config, const PluginHost& plugins, i64 world, int threads);

}  // namespace tessera
