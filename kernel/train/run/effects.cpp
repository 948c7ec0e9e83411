#include "kernel/train/run/effects.hpp"

#include <set>
#include <string>

#include "kernel/train/data/sample_reader.hpp"
#include "kernel/train/run/unbuilt_tables.hpp"
#include "kernel/train/run/unused_keys.hpp"
#include "tessera/error.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

namespace {

void check_recompute(const RunSetup& setup, const std::vector<PhaseInfo>& blocks) {
  const RecomputeSection& recompute = setup.config->recompute;
  const std::string where = setup.maker->origin("recompute", "scopes");
  const bool written = recompute.scopes != RecomputeSection().scopes;
  if (recompute.mode != "selective" && written && !recompute.scopes.empty()) {
    fail_config(
        "{}: [recompute] scopes has no effect: mode = \"{}\" computes {} again; set mode = "
        "\"selective\", or scopes = []",
        where,
        recompute.mode,
        recompute.mode == "none" ? "nothing" : "everything");
  }
  if (recompute.mode != "selective") return;
  if (recompute.scopes.empty()) {
    fail_config("{}: [recompute] mode = \"selective\" with no scopes recomputes nothing", where);
  }
  std::set<std::string> known;
  for (const PhaseInfo& info : blocks) known.insert(info.scope);
  for (const std::string& scope : recompute.scopes) {
    if (known.contains(scope)) continue;
    fail_config("{}: [recompute] scopes has {}; the model's blocks have {}",
                where,
                quote(scope),
                fmt::join(known, ", "));
  }
}

void check_experts(const RunSetup& setup, bool any) {
  if (any) return;
  const ParallelSection& p = setup.config->parallel;
  const auto refuse = [&](std::string_view key, i64 size) {
    fail_config("{}: [parallel] {} = {}: no layer of the model has experts",
                setup.maker->origin("parallel", key),
                key,
                size);
  };
  if (p.expert > 1) refuse("expert", p.expert);
  if (p.expert_tensor && *p.expert_tensor != p.tensor) refuse("expert_tensor", *p.expert_tensor);
}

void check_prepared(const RunSetup& setup, const Effects& use) {
  const PrecisionSection& precision = setup.config->precision;
  if (!precision.prepare_weights || use.prepared) return;
  fail_config("{}: [precision] prepare_weights = true: {}",
              setup.maker->origin("precision", "prepare_weights"),
              use.linear ? fmt::format("the device \"{}\" has no prepared form of {} weights",
                                       setup.config->device.device.type,
                                       precision.compute)
                         : "no linear layer of the model would read prepared weights");
}

void check_validation(const RunSetup& setup, const Effects& use) {
  const i64 samples = setup.validation_samples, global = setup.config->batch.global;
  if (use.unmasked_loss.empty() || samples % global == 0) return;
  fail_config(
      "{}: [validation] {} samples do not fill batches of batch.global = {}, and the loss \"{}\" "
      "is "
      "weighted by samples or tokens, so what fills up the last batch would count: set "
      "validation.samples to a multiple of {}, of at most the samples that [data] keeps",
      setup.maker->origin("validation", "samples"),
      samples,
      global,
      use.unmasked_loss,
      global);
}

}  // namespace

void Effects::add(const RunSetup& setup, const PlacedModel& model, const Plan& plan) {
  for (const Parameter* parameter : model.parts().parameter_list()) {
    experts |= parameter->layout.expert();
    linear |= parameter->linear;
    prepared |= parameter->forward_packed.defined();
  }
  if (unmasked_loss.empty()) unmasked_loss = tessera::unmasked_loss(model.parts());
  const std::vector<ModelLayer> layers = setup.model->layers();
  for (const PhaseInfo& info : plan.phases) {
    if (info.layer >= 0 && layers[static_cast<std::size_t>(info.layer)].is_block())
      blocks.push_back(info);
  }
}

void Effects::add(const Effects& other) {
  blocks.insert(blocks.end(), other.blocks.begin(), other.blocks.end());
  experts |= other.experts;
  linear |= other.linear;
  prepared |= other.prepared;
  if (unmasked_loss.empty()) unmasked_loss = other.unmasked_loss;
}

void check_effects(const RunSetup& setup, const Effects& use, ProblemList& problems) {
  const auto check = [&](auto&& body) {
    problems.run([&] {
      body();
      return true;
    });
  };
  check_unused_keys(setup, problems);
  check_unbuilt_tables(setup, problems);
  check([&] { check_recompute(setup, use.blocks); });
  check([&] { setup.graphs->check(use.blocks); });
  check([&] { check_experts(setup, use.experts); });
  check([&] { check_prepared(setup, use); });
  check([&] { check_validation(setup, use); });
}

}  // namespace tessera
