#pragma once
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "order.hpp"
#include "parts.hpp"
#include "prefixes.hpp"
#include "sample_fields.hpp"
#include "tessera/data.hpp"

namespace tessera {

/// Next-token samples from token files (tessera/io/token_file.hpp), one or a blend of several.
class IndexedDataset final : public Dataset {
 public:
  struct Config {
    std::vector<std::string> path, validation_path, test_path;
    Auto<std::string> split;
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
  SetContent do_content(SampleSet set) const override;
  std::vector<const DataFile*> do_files() const override;

 private:
  struct Set {
    std::vector<Part> parts;
    std::vector<double> weights;
    bool split = false;            // shares its files with other sets
    std::unique_ptr<Order> order;  // nullptr: there is nothing of it
  };
  Sample find(SampleSet set, i64 ordinal) const;
  void add(SampleSet set, const Prefixes& prefixes, const std::string& key);
  void add_split(const Prefixes& prefixes, const std::string& split);
  std::shared_ptr<const TokenFile> open(const std::string& prefix, const std::string& key);
  i64 least_tokens(SampleSet set) const;
  void require_samples(SampleSet set) const;
  void put_in_order(SampleSet set, const DatasetArguments& arguments);
  std::unique_ptr<Order> epochs(SampleSet set,
                                const std::vector<Part>& parts,
                                const DatasetArguments& arguments) const;

  Set& of(SampleSet set) { return sets_[static_cast<std::size_t>(set)]; }
  const Set& of(SampleSet set) const { return sets_[static_cast<std::size_t>(set)]; }

  std::shared_ptr<const Tokenizer> tokenizer_;
  DocumentFields documents_;
  std::vector<FieldInfo> fields_;
  i64 length_, vocabulary_;
  std::string vocabulary_owner_ = "tokenizer";
  i64 training_samples_;
  bool megatron_, packed_, tail_;
  std::string order_text_;  // of the fingerprint
  std::vector<std::shared_ptr<const TokenFile>> files_;
  std::array<Set, 3> sets_;
};

}  // namespace tessera
