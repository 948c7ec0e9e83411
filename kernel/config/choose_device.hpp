#pragma once
#include <string>
#include <string_view>

#include "kernel/config/catalog.hpp"

namespace tessera {

/// What "auto" means where the hardware decides.
struct ChosenDevice {
  std::string type;
  std::string why;  ///< "2 GPUs are visible"; or of each device of which no unit is here, why
};

/// The first component of `kind` that needs a unit of hardware and has one here, else `otherwise`.
ChosenDevice choose_by_units(const Catalog& catalog,
                             std::string_view kind,
                             const std::string& otherwise);

}  // namespace tessera
