#pragma once
#include <string>
#include <vector>

#include "kernel/train/setup/placed_model.hpp"
#include "kernel/train/setup/problem_list.hpp"

namespace tessera {

/// What a model has of that which tables of a configuration speak of, on one rank or on several
/// together.
struct Effects {
  std::vector<PhaseInfo> blocks;          ///< phases of blocks
  bool experts = false;                   ///< parameters that are cut along an axis of the experts
  bool linear = false, prepared = false;  ///< weights of linear layers; prepared forms of them
  std::string unmasked_loss = {};         ///< unmasked_loss() of its parts
  /// What a rank that plans `plan` has.
  void add(const RunSetup& setup, const PlacedModel& model, const Plan& plan);
  void add(const Effects& other);
};

/// Adds a problem for each key or table that has no effect on a model which `use` tells of all its
/// ranks, and for each name in them that the model does not know.
void check_effects(const RunSetup& setup, const Effects& use, ProblemList& problems);

}  // namespace tessera
