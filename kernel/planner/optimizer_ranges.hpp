#pragma once
#include <string>
#include <vector>

#include "kernel/planner/representative.hpp"
#include "tessera/base/parameter_memory.hpp"

namespace tessera {

/// Which elements each replica updates, of one class of ranks.
struct OptimizerRanges {
  struct Part {
    i64 rank = 0;        ///< of the run, that updates it
    ShardRanges ranges;  ///< never empty
  };
  struct Of {
    std::string name;
    std::vector<Part> parts;  ///< by rank
  };
  struct Bucket {
    i64 begin = 0, elements = 0, shards = 1;
    bool whole = false;          ///< shards are whole parameters
    std::vector<Of> parameters;  ///< in the order of memory
  };
  RankClass of;  ///< of the first rank's replicas; other groups of replicas have the same ranges
  std::vector<Bucket> buckets;
};

/// One for each pipeline rank. Throws Error with what is wrong with the configuration.
std::vector<OptimizerRanges> optimizer_ranges(const PlanArguments& arguments);
std::string optimizer_ranges_text(const std::vector<OptimizerRanges>& all);
std::string optimizer_ranges_json(const std::vector<OptimizerRanges>& all);

}  // namespace tessera
