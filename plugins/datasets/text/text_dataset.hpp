#pragma once
#include <memory>
#include <string>
#include <vector>

#include "corpus.hpp"
#include "tessera/data.hpp"

namespace tessera {

/// Next-token samples from plain text files. Documents that the seed chooses are held back for
/// validation. The tokens of all others, one after the other, are one sequence, those of validation
/// another; a sample is one of the windows of sequence_length tokens that tile it, with the token
/// after each as target. An epoch visits every window once, in an order that depends on (seed,
/// epoch) only. Validation keeps the order of the text.
class TextDataset final : public Dataset {
 public:
  struct Config {
    std::vector<std::string> path;
    double validation = 0.05;
    bool parse_special = false, eod = false;
    static void describe(Schema<Config>& s);
  };
  TextDataset(const Config& config, DatasetArguments& arguments);

  std::vector<FieldInfo> do_fields() const override;
  i64 do_size(SampleSet set) const override;
  void do_read(SampleSet set, i64 ordinal, const SampleBuffers& out) const override;
  std::string do_fingerprint() const override;
  std::string do_origin(SampleSet set, i64 ordinal) const override;
  SetContent do_content(SampleSet set) const override;
  std::vector<const DataFile*> do_files() const override;

 private:
  i64 windows(std::string_view what, SampleSet set) const;
  i64 window_of(SampleSet set, i64 ordinal) const;

  std::shared_ptr<const Tokenizer> tokenizer_;
  Corpus corpus_;
  i64 sequence_length_;
  u64 shuffle_key_;
  i64 training_windows_, validation_windows_ = 0;
};

}  // namespace tessera
