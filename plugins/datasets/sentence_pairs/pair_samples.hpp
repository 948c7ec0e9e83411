#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "glue.hpp"
#include "pack.hpp"
#include "task_dataset.hpp"
#include "tessera/io/data_file.hpp"

namespace tessera {

/// A task of sentence pairs, and how its files are read.
struct PairTask {
  std::string name;
  std::function<void(const DataFile& file, BadRows& bad, const TakePair& take)> read;
  bool pairs = true;      ///< false: a text has none beside it
  std::string keys = {};  ///< what else decides its samples
};
PairTask mnli_task();
PairTask qqp_task();

/// The pairs of some files, one a sample.
class PairSamples final : public TaskSamples {
 public:
  struct How {
    const Tokenizer& tokenizer;
    i64 length;          ///< places of a sample
    i64 vocabulary = 0;  ///< of the model; 0: not known
    BadRows bad = {};
  };
  PairSamples(const PairTask& task,
              const std::vector<std::string>& paths,
              std::string_view key,
              const How& how);

  i64 size() const override { return static_cast<i64>(labels_.size()); }
  void write(i64 number, const SampleBuffers& out) const override;
  std::string origin(i64 number) const override;
  SetContent content() const override;
  u64 hash() const override { return hash_; }
  std::vector<FieldInfo> fields() const override;

  const std::vector<i64>& labels() const { return labels_; }
  /// How many samples come before the second, the third file, ..., and how many there are.
  const std::vector<i64>& ends() const { return ends_; }
  i64 left_out() const { return left_out_; }  ///< lines

 private:
  PairMarks marks_;
  bool pairs_;
  i64 length_, left_out_ = 0;
  u64 hash_ = 0;
  std::vector<std::string> files_;
  std::vector<i64> ends_, labels_, lines_;
  TokenLists texts_;  // A and B of each
};

}  // namespace tessera
