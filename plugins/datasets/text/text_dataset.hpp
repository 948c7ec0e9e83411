#pragma once
#include <memory>
#include <string>
#include <vector>

#include "corpus.hpp"
#include "tessera/data.hpp"

namespace tessera {

/// Next-token samples from plain text files. The text is one sequence of tokens, its last part is
/// kept for validation; a sample is one of the windows of sequence_length tokens that tile its
/// part, with the token after each as target. An epoch visits every window once, in an order that
/// depends on (seed, epoch) only. Validation keeps the order of the text.
class TextDataset final : public Dataset {
 public:
  struct Config {
    std::vector<std::string> path;
    double validation = 0.05;
    static void describe(Schema<Config>& s);
  };
  TextDataset(const Config& config, DatasetArguments& arguments);

  std::vector<FieldInfo> fields() const override;
  i64 size(SampleSet set) const override;
  void read(SampleSet set, i64 ordinal, const SampleBuffers& out) const override;
  std::string fingerprint() const override;

 private:
  struct Part {
    i64 first_token = 0;
    i64 windows = 0;
  };
  const Part& part(SampleSet set) const { return set == SampleSet::train ? train_ : validation_; }
  Part cut(std::string_view what, i64 first_token, i64 tokens) const;

  std::shared_ptr<const Tokenizer> tokenizer_;
  Corpus corpus_;
  i64 sequence_length_;
  u64 shuffle_key_;
  Part train_, validation_;
};

}  // namespace tessera
