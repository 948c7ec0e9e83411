#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// Prefixes of token files, with weights or without: a list as Megatron-LM's --data-path has it.
struct Prefixes {
  std::vector<std::string> paths;
  std::vector<double> weights;  ///< one each, as written; empty: none was
};

/// `values`: prefixes, or a weight before each prefix. `key` is the configuration's, for errors.
/// Throws ConfigError for a weight without a prefix, or one that is not above 0.
Prefixes read_prefixes(const std::vector<std::string>& values, std::string_view key);

}  // namespace tessera
