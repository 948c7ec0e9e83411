#pragma once
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "order.hpp"
#include "sample_fields.hpp"
#include "tessera/data.hpp"
#include "token_sets.hpp"

namespace tessera {

/// Next-token samples from token files (tessera/io/token_file.hpp), one or a blend of several.
class IndexedDataset final : public Dataset {
 public:
  struct Config : TokenSetKeys {
    std::string order = "tessera", pack = "none";
    bool reset_positions = false, reset_attention = false, mask_eod_loss = false;
    bool validation_tail = false;
    static void describe(Schema<Config>& s);
  };
  IndexedDataset(const Config& config, DatasetArguments& arguments);

  std::vector<FieldInfo> do_fields() const override { return fields_; }
  i64 do_size(SampleSet set) const override;
  void do_read(SampleSet set, i64 ordinal, const SampleBuffers& out) const override;
  std::string do_origin(SampleSet set, i64 ordinal) const override;
  std::string do_fingerprint() const override;
  SetContent do_content(SampleSet set) const override { return sets_.content(set); }
  std::vector<const DataFile*> do_files() const override { return sets_.files(); }

 private:
  Sample find(SampleSet set, i64 ordinal) const;
  i64 least_tokens(SampleSet set) const;
  void put_in_order(SampleSet set, const DatasetArguments& arguments);
  std::unique_ptr<Order> epochs(SampleSet set,
                                const std::vector<Part>& parts,
                                const DatasetArguments& arguments) const;

  std::unique_ptr<Order>& order_of(SampleSet set) { return orders_[static_cast<std::size_t>(set)]; }
  const std::unique_ptr<Order>& order_of(SampleSet set) const {
    return orders_[static_cast<std::size_t>(set)];
  }

  std::shared_ptr<const Tokenizer> tokenizer_;
  DocumentFields documents_;
  std::vector<FieldInfo> fields_;
  i64 length_, vocabulary_;
  std::string vocabulary_owner_ = "tokenizer";
  i64 training_samples_;
  bool megatron_, packed_, tail_;
  std::string order_text_;  // of the fingerprint
  TokenSets sets_;
  std::array<std::unique_ptr<Order>, 3> orders_;  // nullptr: there is nothing of a set
};

}  // namespace tessera
