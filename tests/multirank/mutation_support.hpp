#pragma once
#include <fmt/format.h>

#include <string>
#include <vector>

#include "invariant_support.hpp"

namespace tessera::testing {

using Finding = std::string Findings::*;

/// What every finding shows.
inline const std::vector<Finding> kAll = {
    &Findings::losses, &Findings::norms, &Findings::gradients, &Findings::update};

/// A place of the configuration, and the mutant that stands there: "norm" for "mutant_norm".
struct Part {
  std::string path, type;
};

/// A component with a mistake that the invariant table must find, and that is right without it.
struct Mutation {
  std::string name;
  Sets layout;
  Part part;
  std::string mistake;
  std::vector<Finding> found_by = kAll;
  bool hidden = true;  ///< does one rank compute the same with the mistake?
  Sets model = {};     ///< what is trained, on both sides
  Sets also = {};      ///< further keys of the component

  /// The component without its mistake.
  Sets component() const {
    return with({fmt::format("{}.type=\"mutant_{}\"", part.path, part.type)}, also);
  }
  /// The component with its mistake. The replica check would stop some before the table sees them.
  Sets with_mistake() const {
    return with(component(),
                {fmt::format("{}.mistake=\"{}\"", part.path, mistake), "check.replicas_every=0"});
  }
};

}  // namespace tessera::testing
