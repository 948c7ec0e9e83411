#include "pair_datasets.hpp"

namespace tessera {

namespace {

// How a dataset reads the files of a set.
auto reader(const PairTask& task, const DatasetArguments& arguments, BadRows bad) {
  return [&task, &arguments, bad](const std::vector<std::string>& paths, std::string_view key) {
    return std::make_shared<const PairSamples>(
        task,
        paths,
        key,
        PairSamples::How{
            *arguments.tokenizer, arguments.sequence_length, arguments.vocabulary, bad});
  };
}

}  // namespace

BadRows BadLinesKey::bad_rows() const {
  return {.leave_out = bad_lines == "skip",
          .advice = " (bad_lines = \"skip\" leaves such lines out)"};
}

void MnliDataset::Config::describe(Schema<Config>& s) {
  describe_paths(s, "files of MNLI as GLUE has them (train.tsv, dev_matched.tsv)");
}

MnliDataset::MnliDataset(const Config& config, DatasetArguments& arguments)
    : TaskDataset(kMnli.name, config, arguments.seed, reader(kMnli, arguments, {})) {}

void QqpDataset::Config::describe(Schema<Config>& s) {
  describe_paths(s, "files of QQP as GLUE has them (train.tsv, dev.tsv)");
  describe_bad_lines(s);
}

QqpDataset::QqpDataset(const Config& config, DatasetArguments& arguments)
    : TaskDataset(kQqp.name, config, arguments.seed, reader(kQqp, arguments, config.bad_rows())) {}

}  // namespace tessera
