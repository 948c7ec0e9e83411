#pragma once
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "bert_sample.hpp"
#include "order.hpp"
#include "sentence_map.hpp"
#include "tessera/data.hpp"
#include "token_sets.hpp"
#include "word_masks.hpp"

namespace tessera {

/// Samples as BERT is trained with (Devlin et al. 2018): pairs of sentences with masked words.
class BertDataset final : public Dataset {
 public:
  struct Config : TokenSetKeys {
    std::string order = "tessera";
    double short_sequences = 0.1, mask_probability = 0.15;
    i64 ngrams = 3;
    bool pairs = true;
    static void describe(Schema<Config>& s);
  };
  BertDataset(const Config& config, DatasetArguments& arguments);

  std::vector<FieldInfo> do_fields() const override { return bert_fields(pairs_); }
  i64 do_size(SampleSet set) const override;
  void do_read(SampleSet set, i64 ordinal, const SampleBuffers& out) const override;
  std::string do_origin(SampleSet set, i64 ordinal) const override;
  std::string do_fingerprint() const override;
  SetContent do_content(SampleSet set) const override;
  std::vector<const DataFile*> do_files() const override { return sets_.files(); }

 private:
  Sample find(SampleSet set, i64 ordinal) const;
  DocumentUse use_of(const TokenIndex& index, i64 document) const;
  void require_sentences() const;
  void put_in_order(SampleSet set, const DatasetArguments& arguments);
  const std::unique_ptr<Order>& order_of(SampleSet set) const {
    return orders_[static_cast<std::size_t>(set)];
  }

  bool pairs_;
  i64 length_;
  u64 seed_;
  bool megatron_;
  MaskRules rules_;
  double short_sequences_;
  i64 training_samples_;
  TokenSets sets_;
  std::array<std::unique_ptr<Order>, 3> orders_;  // nullptr: there is nothing of a set
};

}  // namespace tessera
