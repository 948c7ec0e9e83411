#pragma once
#include "kernel/cli/eval_models.hpp"

namespace tessera {

/// One rank's part of `tessera eval`: measures the models one after the other, tells what it finds.
/// `first` and its setup are of --checkpoint.
void measure(const EvalOptions& options,
             const EvalModels& models,
             const StoredModel& first,
             const RunSetup& setup,
             const RankIdentity& identity,
             const RankFailed& failed);

}  // namespace tessera
