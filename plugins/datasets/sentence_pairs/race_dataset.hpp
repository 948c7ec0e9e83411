#pragma once
#include "choice_samples.hpp"
#include "task_dataset.hpp"

namespace tessera {

/// Dataset `race`: articles, questions with choices (Lai et al. 2017).
class RaceDataset final : public TaskDataset {
 public:
  struct Config : TaskKeys, ChoiceKeys {
    static void describe(Schema<Config>& s);
  };
  RaceDataset(const Config& config, DatasetArguments& arguments);
};

}  // namespace tessera
