#pragma once
#include <memory>
#include <string>
#include <vector>

#include "kernel/train/setup.hpp"

namespace tessera {

/// The configured data, or, where it cannot be opened, samples of the right shapes without values,
/// all of whose positions count; `note` then says so. Their vocabulary is that of the tokenizer in
/// the data's slot, which needs no data. Throws the data's error when the model depends on it and
/// there is no such tokenizer.
std::shared_ptr<Dataset> data_for_plan(const Resolved& config,
                                       const Catalog& plugins,
                                       ComponentMaker& maker,
                                       const RankGenerator& ranks,
                                       std::string& note);

}  // namespace tessera
