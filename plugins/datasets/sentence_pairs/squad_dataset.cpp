#include "squad_dataset.hpp"

namespace tessera {

void SquadDataset::Config::describe(Schema<Config>& s) {
  describe_paths(s, "files of SQuAD 1.1 or 2.0 (train-v1.1.json, train-v2.0.json)");
  describe_spans(s);
}

SquadDataset::SquadDataset(const Config& config, DatasetArguments& arguments)
    : TaskDataset("squad",
                  config,
                  arguments.seed,
                  [&](const std::vector<std::string>& paths, std::string_view key) {
                    return std::make_shared<const SquadSamples>(
                        paths,
                        key,
                        config,
                        SquadSamples::How{.tokenizer = *arguments.tokenizer,
                                          .length = arguments.sequence_length,
                                          .vocabulary = arguments.vocabulary});
                  }) {}

}  // namespace tessera
