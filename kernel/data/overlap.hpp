#pragma once
#include <string>
#include <vector>

#include "kernel/data/json_document.hpp"
#include "tessera/types.hpp"

namespace tessera {

/// How much of texts for a test stands in texts for training too, in runs of `words` words.
struct OverlapShare {
  i64 runs = 0;      ///< of the test's texts, as often as they occur
  i64 found = 0;     ///< of these, what the training's texts have too
  i64 distinct = 0;  ///< each run once
  i64 distinct_found = 0;
};

/// `test` and `train` are files as a build's input. Memory: 50 bytes for each run of the test.
/// Throws ConfigError where the test has no run.
OverlapShare overlap_share(const std::vector<std::string>& test,
                           const std::vector<std::string>& train,
                           i64 words,
                           const JsonFields& fields);

}  // namespace tessera
