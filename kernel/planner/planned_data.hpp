#pragma once
#include <memory>
#include <string>
#include <vector>

#include "kernel/train/setup/run_setup.hpp"

namespace tessera {

/// The setup of a run whose data may be elsewhere. Where tokenizer or dataset cannot be opened,
/// samples of the right shapes stand for them, all of whose positions count, and `note` says so.
/// `use`: DataUse::optional, or optional_tokenizer, which opens no dataset.
/// Throws one ConfigError with all problems; among them that of the data when the model needs it.
RunSetup derive_planned_setup(const Resolved& config,
                              const PluginHost& plugins,
                              i64 world,
                              std::string& note,
                              DataUse use = DataUse::optional);

}  // namespace tessera
