#pragma once
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/context.hpp"
#include "tessera/plugin.hpp"
#include "training_support.hpp"

namespace tessera::testing {

/// Components named "mutant_…" that do what the shipped ones do, and with `mistake` set to one of
/// their choices go wrong under some layout, most while one rank still computes the same: the
/// mistakes that parallel training invites.
void register_mutants(Registrar& registrar);
/// The plugins of this build, and these.
const PluginHost& mutants();
/// Those of them that stand in a file of their own.
void register_attention_mutant(Registrar& registrar);
void register_optimizer_mutant(Registrar& registrar);
void register_pipeline_mutants(Registrar& registrar);
void register_moe_mutants(Registrar& registrar);
void register_ahead_mutants(Registrar& registrar);
void register_text_mutants(Registrar& registrar);
void register_bert_mutants(Registrar& registrar);

/// The key of a mutant that chooses its mistake: one of `choices`, or "none".
template <class Config>
void describe_mistake(Schema<Config>& s, std::vector<std::string> choices) {
  choices.emplace_back("none");
  s.field("mistake", &Config::mistake, "what to do wrong").one_of(std::move(choices));
}

/// Row ids after `change`, in memory of their own.
Tensor changed_ids(Context& cx,
                   const Tensor& rows,
                   const std::function<void(std::vector<i64>&)>& change);

/// As ops::linear, with the gradient of the weight times a factor.
Tensor scaled_linear(Context& cx, const Tensor& x, Parameter& weight, double factor);

/// x, whose gradient is multiplied on the way back.
Tensor scale_gradient(Context& cx, const Tensor& x, double factor);

}  // namespace tessera::testing
