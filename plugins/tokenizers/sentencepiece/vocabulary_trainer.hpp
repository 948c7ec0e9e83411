#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/tokenizer_trainer.hpp"
#include "tessera/types.hpp"

namespace tessera {

/// Options of the library's trainer, by its names.
using TrainerOptions = std::map<std::string, std::string>;
struct TrainedModel {
  std::string bytes;  ///< of a .model file; empty: there is none
  std::string why;    ///< the library's own words then
};
/// Throws ConfigError where this build is without the library.
void require_trainer();
/// To be called where require_trainer() returns.
TrainedModel train_model(const TrainerOptions& options, const std::vector<std::string>& texts);

/// Trains a vocabulary of SentencePiece. Each text that is UTF-8 comes back as it was, but for
/// U+2581, which is SentencePiece's own mark of a space.
class VocabularyTrainer : public TokenizerTrainer {
 public:
  struct Config {
    i64 vocabulary = 0;
    double character_coverage = 0.9995;
    bool split_digits = true;
    i64 longest_token = 16;
    std::string normalization = "identity";
    static void describe(Schema<Config>& s);
  };

 protected:
  VocabularyTrainer(const Config& config, std::string_view model_type);

 private:
  std::string do_tokenizer() const override { return "sentencepiece"; }
  std::string do_train(const std::vector<std::string>& texts) const override;

  Config config_;
  TrainerOptions options_;
};

/// Byte pair encoding (Sennrich, Haddow, Birch 2016) over characters.
class BpeTrainer final : public VocabularyTrainer {
 public:
  BpeTrainer(const Config& config, TokenizerTrainerArguments&) : VocabularyTrainer(config, "bpe") {}
};

/// The unigram language model (Kudo 2018).
class UnigramTrainer final : public VocabularyTrainer {
 public:
  UnigramTrainer(const Config& config, TokenizerTrainerArguments&)
      : VocabularyTrainer(config, "unigram") {}
};

}  // namespace tessera
