#include "sdk/src/components/contract.hpp"
#include "sdk/src/shared/component_call.hpp"
#include "tessera/graph.hpp"
#include "tessera/optimizer.hpp"
#include "tessera/schedule.hpp"

namespace tessera {

int PipelineSchedule::chunks() const {
  return call_component(*this, "chunks", [&] {
    const int chunks = do_chunks();
    require(chunks >= 1, "the schedule has {} chunks a rank: at least 1", chunks);
    return chunks;
  });
}
Place PipelineSchedule::place(const PipelineShape& shape, int rank, int chunk) const {
  return call_component(*this, "place", [&] { return do_place(shape, rank, chunk); });
}
int PipelineSchedule::live(const PipelineShape& shape, int chunk) const {
  return call_component(*this, "live", [&] { return do_live(shape, chunk); });
}
int PipelineSchedule::warmup(const PipelineShape& shape) const {
  return call_component(*this, "warmup", [&] {
    return at_least(0, "the number of forwards before the steady state", do_warmup(shape));
  });
}
bool PipelineSchedule::overlaps() const {
  return call_component(*this, "overlaps", [&] { return do_overlaps(); });
}
std::vector<Action> PipelineSchedule::order(const PipelineShape& shape) const {
  return call_component(*this, "order", [&] { return do_order(shape); });
}

double LrSchedule::rate(i64 step) const {
  return call_component(*this, "rate", [&] {
    const double rate = do_rate(step);
    require(std::isfinite(rate) && rate >= 0,
            "the rate of update {} is {}; it has to be finite and not negative",
            step,
            rate);
    return rate;
  });
}

std::vector<StateSpec> UpdateRule::state() const {
  return call_component(*this, "state", [&] { return do_state(); });
}
double UpdateRule::weight_decay() const {
  return call_component(
      *this, "weight_decay", [&] { return not_negative("the weight decay", do_weight_decay()); });
}
i64 UpdateRule::sums() const {
  return call_component(
      *this, "sums", [&] { return at_least(0, "the number of sums", do_sums()); });
}
void UpdateRule::add_sums(Context& cx,
                          const Shards& shards,
                          const Tensor& scalars,
                          const Tensor& sums) const {
  call_component(*this, "add_sums", [&] { do_add_sums(cx, shards, scalars, sums); });
}
void UpdateRule::update(Context& cx, const Shards& shards, const Tensor& scalars) const {
  call_component(*this, "update", [&] { do_update(cx, shards, scalars); });
}

void Optimizer::sum_squares(Context& cx, const Tensor& out) {
  call_component(*this, "sum_squares", [&] { do_sum_squares(cx, out); });
}
void Optimizer::step(Context& cx, const Tensor& scalars) {
  call_component(*this, "step", [&] { do_step(cx, scalars); });
}
double Optimizer::clip() const {
  return call_component(
      *this, "clip", [&] { return not_negative("the bound of the gradients' norm", do_clip()); });
}
std::vector<NamedState> Optimizer::state() {
  return call_component(*this, "state", [&] { return do_state(); });
}

void GraphPolicy::check(std::span<const PhaseInfo> blocks) const {
  call_component(*this, "check", [&] { do_check(blocks); });
}
std::vector<CapturedRange> GraphPolicy::choose(std::span<const PhaseInfo> phases,
                                               const Plan& plan) const {
  return call_component(*this, "choose", [&] { return do_choose(phases, plan); });
}
bool GraphPolicy::whole_step() const {
  return call_component(*this, "whole_step", [&] { return do_whole_step(); });
}

}  // namespace tessera
