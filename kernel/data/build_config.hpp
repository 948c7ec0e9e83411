#pragma once
#include <memory>
#include <string>
#include <vector>

#include "kernel/config/config.hpp"
#include "kernel/plugin/host.hpp"
#include "tessera/data.hpp"
#include "tessera/document_stage.hpp"
#include "tessera/schema.hpp"

namespace tessera {

/// The keys of `tessera data build FILE.toml`:
///
///     schema = 1
///     input = ["python.jsonl", "more/*.jsonl.zst"]
///     output = "python"
///     tokenizer = {type = "byte"}
///     stages = [{type = "clean"}, {type = "near_duplicates"}]
struct BuildKeys {
  std::vector<std::string> input;
  std::string output;
  std::string text_field = "text", id_field = "id";
  Auto<bool> eod;
  Auto<i64> shuffle_seed;
  i64 shards = 1;
  Auto<i64> threads;
  static void describe(Schema<BuildKeys>& s);
};

/// A build's configuration, checked, with its components made.
struct BuildConfig {
  struct Stage {
    std::string type;
    std::shared_ptr<const DocumentStage> stage;
  };
  BuildKeys keys;
  std::string folder;  ///< of the file, for shown paths
  std::shared_ptr<const Tokenizer> tokenizer;
  std::vector<Stage> stages;
  /// Of all that decides what is written, but the input: keys, plugins, files that stages read.
  u64 identity = 0;

  /// Throws ConfigError with all problems, each with its line.
  static BuildConfig load(const Config& config, const PluginHost& plugins);
};

}  // namespace tessera
