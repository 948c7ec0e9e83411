#pragma once
#include <string>
#include <utility>
#include <vector>

#include "tessera/optimizer.hpp"
#include "tessera/plugin.hpp"

namespace tessera::testing {

/// Components named "mutant_…" that do what the shipped ones do, and with `mistake` set to one of
/// their choices go wrong under some layout, most while one rank still computes the same: the
/// mistakes that parallel training invites.
void register_mutants(Registrar& registrar);

/// The key of a mutant that chooses its mistake: one of `choices`, or "none".
template <class Config>
void describe_mistake(Schema<Config>& s, std::vector<std::string> choices) {
  choices.emplace_back("none");
  s.field("mistake", &Config::mistake, "what to do wrong").one_of(std::move(choices));
}

/// What the optimizer `replicated` updates where it has no groups.
Shards shards_without_groups(const OptimizerArguments& arguments, const UpdateRule& rule);

}  // namespace tessera::testing
