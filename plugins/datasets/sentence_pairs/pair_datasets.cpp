#include "pair_datasets.hpp"

namespace tessera {

BadRows BadLinesKey::bad_rows() const {
  return {.leave_out = bad_lines == "skip",
          .advice = " (bad_lines = \"skip\" leaves such lines out)"};
}

void MnliDataset::Config::describe(Schema<Config>& s) {
  describe_paths(s, "files of MNLI as GLUE has them (train.tsv, dev_matched.tsv)");
}

MnliDataset::MnliDataset(const Config& config, DatasetArguments& arguments)
    : TaskDataset("mnli", config, arguments.seed, pair_reader(mnli_task(), arguments, {})) {}

void QqpDataset::Config::describe(Schema<Config>& s) {
  describe_paths(s, "files of QQP as GLUE has them (train.tsv, dev.tsv)");
  describe_bad_lines(s);
}

QqpDataset::QqpDataset(const Config& config, DatasetArguments& arguments)
    : TaskDataset(
          "qqp", config, arguments.seed, pair_reader(qqp_task(), arguments, config.bad_rows())) {}

}  // namespace tessera
