#pragma once
#include "pair_samples.hpp"
#include "task_dataset.hpp"

namespace tessera {

/// Datasets `mnli` and `qqp`: pairs of sentences and a class (GLUE, Wang et al. 2019).
struct BadLinesKey {
  std::string bad_lines = "error";
  BadRows bad_rows() const;
};
template <class C>
void describe_bad_lines(Schema<C>& s, FromRun from = {}) {
  s.field(
       "bad_lines",
       &C::bad_lines,
       from.text(
           "what becomes of a line that has another number of columns than the first, or an empty "
           "question; Quora's own list has such. skip: it is left out, and counted",
           "error"))
      .from(from.path("data.bad_lines"))
      .one_of({"error", "skip"});
}

/// How a dataset reads the files of a set: what TaskDataset asks for. `arguments` outlives it.
inline auto pair_reader(PairTask task, const DatasetArguments& arguments, BadRows bad) {
  return [task = std::move(task), &arguments, bad](const std::vector<std::string>& paths,
                                                   std::string_view key) {
    const PairSamples::How how{
        *arguments.tokenizer, arguments.sequence_length, arguments.vocabulary, bad};
    return std::make_shared<const PairSamples>(task, paths, key, how);
  };
}

class MnliDataset final : public TaskDataset {
 public:
  struct Config : TaskKeys {
    static void describe(Schema<Config>& s);
  };
  MnliDataset(const Config& config, DatasetArguments& arguments);
};

class QqpDataset final : public TaskDataset {
 public:
  struct Config : TaskKeys, BadLinesKey {
    static void describe(Schema<Config>& s);
  };
  QqpDataset(const Config& config, DatasetArguments& arguments);
};

}  // namespace tessera
