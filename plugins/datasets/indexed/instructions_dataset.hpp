#pragma once
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "instruction_tokens.hpp"
#include "order.hpp"
#include "sample_fields.hpp"
#include "tessera/data.hpp"

namespace tessera {

/// Prompts and answers, with a loss on answers alone. An epoch has each example once.
class InstructionsDataset final : public Dataset {
 public:
  struct Config {
    std::vector<std::string> path, validation_path;
    std::string prompt_field = "prompt", answer_field = "answer";
    Auto<double> validation;
    Auto<bool> eos;
    bool parse_special = false;
    std::string pack = "none", too_long = "error";
    static void describe(Schema<Config>& s);
  };
  InstructionsDataset(const Config& config, DatasetArguments& arguments);

  std::vector<FieldInfo> do_fields() const override { return sample_fields(told_); }
  i64 do_size(SampleSet set) const override;
  void do_read(SampleSet set, i64 ordinal, const SampleBuffers& out) const override;
  std::string do_origin(SampleSet set, i64 ordinal) const override;
  std::string do_fingerprint() const override;
  SetContent do_content(SampleSet set) const override;
  std::vector<const DataFile*> do_files() const override;

 private:
  struct Set {
    std::shared_ptr<const InstructionTokens> tokens;
    std::unique_ptr<Order> order;  // nullptr: there is none of it
    i64 examples = 0, used = 0;    // and their tokens
  };
  Set& of(SampleSet set) { return sets_[static_cast<std::size_t>(set)]; }
  const Set& of(SampleSet set) const { return sets_[static_cast<std::size_t>(set)]; }
  void add(SampleSet set,
           std::shared_ptr<const InstructionTokens> tokens,
           std::vector<i64> examples,
           const DatasetArguments& arguments);
  Sample find(SampleSet set, i64 ordinal) const;

  std::shared_ptr<const Tokenizer> tokenizer_;
  bool packed_;
  DocumentFields told_;
  i64 length_, vocabulary_;
  std::string vocabulary_owner_ = "tokenizer", split_text_;
  std::array<Set, 3> sets_;  // none of the test set
};

}  // namespace tessera
