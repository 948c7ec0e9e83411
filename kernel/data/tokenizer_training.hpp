#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernel/config/config.hpp"
#include "kernel/data/input_files.hpp"
#include "kernel/plugin/host.hpp"
#include "tessera/schema.hpp"
#include "tessera/tokenizer_trainer.hpp"

namespace tessera {

/// The keys of `tessera tokenizer train FILE.toml`:
///
///     schema = 1
///     input = ["python.jsonl", "more/*.jsonl.zst"]
///     output = "python.model"
///     trainer = {type = "bpe", vocabulary = 8192}
struct TrainingKeys {
  std::vector<std::string> input;
  std::string output;
  std::string text_field = "text";
  i64 sample_mib = 32;
  i64 seed = 1234;
  static void describe(Schema<TrainingKeys>& s);
};

/// A vocabulary that was trained, for people.
struct TrainedVocabulary {
  std::string tokenizer;  ///< the type that reads it
  i64 tokens = 0;
  double bytes_a_token = 0;  ///< of the texts it was trained on, or the first MiB of them
};

/// Trains a vocabulary on documents, read as a build reads them (corpus_reader.hpp).
class TokenizerTraining {
 public:
  /// Throws ConfigError with all problems, each with its line.
  TokenizerTraining(const Config& config, const PluginHost& plugins);
  /// What becomes known on the way is told by `tell`, a line each. `force`: replaces a file that is
  /// there. Throws ConfigError before anything is read where the file cannot be written. It gets
  /// its name when all of it is on the disk and its tokenizer has read it; until then it has one
  /// that no other file had.
  TrainedVocabulary run(bool force, const std::function<void(const std::string&)>& tell) const;
  const std::string& output() const { return keys_.output; }

 private:
  void require_writable(bool force) const;
  [[noreturn]] void refuse_old() const;
  std::vector<std::string> read(const std::vector<InputFile>& files,
                                const std::function<void(const std::string&)>& tell) const;
  TrainedVocabulary opened(const std::string& file, const std::vector<std::string>& texts) const;

  const PluginHost& plugins_;
  TrainingKeys keys_;
  std::string folder_;  // of the configuration, for shown paths
  std::string type_;
  std::shared_ptr<const TokenizerTrainer> trainer_;
};

}  // namespace tessera
