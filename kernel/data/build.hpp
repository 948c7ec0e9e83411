#pragma once
#include <string>
#include <vector>

#include "kernel/data/build_config.hpp"
#include "kernel/data/stage_counts.hpp"

namespace tessera {

/// What a build made, for people.
struct BuildSummary {
  struct Stage {
    std::string type;
    StageCounts counts;
  };
  std::vector<std::string> prefixes;  ///< of the token files, in their order
  std::vector<Stage> stages;
  i64 documents = 0, tokens = 0;  ///< with the tokens that end documents
};

/// Makes token files of documents (README.md: "A build"). `force`: replaces files that are there.
/// Throws ConfigError for what the configuration or the input has wrong.
BuildSummary build_corpus(const BuildConfig& config, bool force);

}  // namespace tessera
