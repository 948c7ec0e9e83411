#pragma once
#include <fmt/format.h>

#include <string>
#include <vector>

#include "invariant_support.hpp"

namespace tessera::testing {

using Row = std::string Findings::*;

/// A component with a mistake that the invariant table must find, and that is right without it.
struct Mutation {
  std::string name;
  Sets layout;
  std::string path, type, mistake;
  std::vector<Row> found_by;
  bool hidden = true;  ///< does one rank compute the same with the mistake?
  Sets model = {};     ///< what is trained, on both sides
  Sets also = {};      ///< further keys of the component

  /// The component without its mistake.
  Sets component() const { return with({fmt::format("{}.type=\"mutant_{}\"", path, type)}, also); }
  /// The component with its mistake. The replica check would stop some before the table sees them.
  Sets with_mistake() const {
    return with(component(),
                {fmt::format("{}.mistake=\"{}\"", path, mistake), "check.replicas_every=0"});
  }
};

}  // namespace tessera::testing
