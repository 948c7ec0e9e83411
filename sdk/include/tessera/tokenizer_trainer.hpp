#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/identified.hpp"
#include "tessera/schema.hpp"

namespace tessera {

struct TokenizerTrainerArguments {};

/// Makes the file of a tokenizer from texts (`tessera tokenizer train`). Plugin kind
/// "tokenizer_trainer".
///
///     class Letters final : public TokenizerTrainer {
///      public:
///       struct Config {
///         i64 vocabulary = 0;
///         static void describe(Schema<Config>& s) {
///           s.field("vocabulary", &Config::vocabulary, "tokens")
///               .required().at_least(2).at_most(kMostVocabulary);
///         }
///       };
///       Letters(const Config& config, TokenizerTrainerArguments&);
///
///      private:
///       std::string do_tokenizer() const override { return "letters"; }
///       std::string do_train(const std::vector<std::string>& texts) const override;
///     };
class TESSERA_API TokenizerTrainer : public Identified {
 public:
  static constexpr std::string_view kKind = "tokenizer_trainer";
  using Arguments = TokenizerTrainerArguments;

  ~TokenizerTrainer() override;
  /// The type of the tokenizer that reads the file, by a key `path`: "sentencepiece".
  std::string tokenizer() const;
  /// The bytes of the file: a pure function of texts and keys, on a machine of any number of
  /// processors. `texts` are UTF-8, none empty: whole lines that follow each other in a document,
  /// with their line feeds. Throws ConfigError naming the key where they do not give such a
  /// vocabulary. It writes nothing on the terminal.
  std::string train(const std::vector<std::string>& texts) const;

 private:
  virtual std::string do_tokenizer() const = 0;
  virtual std::string do_train(const std::vector<std::string>& texts) const = 0;
};

}  // namespace tessera
