#include "race_dataset.hpp"

namespace tessera {

void RaceDataset::Config::describe(Schema<Config>& s) {
  describe_paths(s,
                 "folders of RACE (train, dev), which have folders middle and high, or one of "
                 "these");
  describe_choices(s);
}

RaceDataset::RaceDataset(const Config& config, DatasetArguments& arguments)
    : TaskDataset("race",
                  config,
                  arguments.seed,
                  [&](const std::vector<std::string>& paths, std::string_view key) {
                    return std::make_shared<const ChoiceSamples>(paths,
                                                                 key,
                                                                 config,
                                                                 *arguments.tokenizer,
                                                                 arguments.sequence_length,
                                                                 arguments.vocabulary);
                  }) {}

}  // namespace tessera
