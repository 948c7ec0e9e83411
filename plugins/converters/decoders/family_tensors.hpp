#pragma once
#include "family_config.hpp"

namespace tessera {

/// Every parameter of the model and where its values lie, as Converter::tensors() gives them.
std::vector<ConvertedTensor> family_tensors(FamilyConfig& config);

/// The head where it is a second name of the table.
std::vector<SharedTensor> family_shared(FamilyConfig& config);

}  // namespace tessera
