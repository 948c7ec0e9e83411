#pragma once
#include "squad_samples.hpp"
#include "task_dataset.hpp"

namespace tessera {

/// Dataset `squad`: questions whose answers are in a context (Rajpurkar et al. 2016, 2018).
class SquadDataset final : public TaskDataset {
 public:
  struct Config : TaskKeys, SpanKeys {
    static void describe(Schema<Config>& s);
  };
  SquadDataset(const Config& config, DatasetArguments& arguments);
};

}  // namespace tessera
