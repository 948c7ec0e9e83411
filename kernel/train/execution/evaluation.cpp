#include "kernel/train/execution/evaluation.hpp"

#include "kernel/model/host_values.hpp"
#include "tessera/error.hpp"
#include "tessera/random.hpp"

namespace tessera {

Evaluation::Evaluation(const Rank& rank, PlacedModel& model, const RunSetup& setup)
    : rank_(rank),
      model_(model),
      setup_(setup),
      executor_(model.chunks(), model.parts(), nullptr, *rank.mesh, model.boundaries()) {}

const Plan& Evaluation::plan(int microbatches) {
  const auto known = plans_.find(microbatches);
  if (known != plans_.end()) return known->second;
  return plans_.emplace(microbatches, model_.plan(microbatches, false)).first->second;
}

double Evaluation::validate(i64 samples) {
  if (loader_ == nullptr) {
    loader_ = std::make_unique<BatchLoader>(
        *setup_.dataset, model_.parts(), setup_.batch, *rank_.mesh, *rank_.device);
    losses_ = std::make_unique<StepLosses>(model_.parts(), 1, *rank_.device);
  }
  Context cx = rank_.context();
  cx.sink = losses_.get();
  int microbatches = loader_->microbatches(samples);
  // Schedules may want certain numbers of microbatches: those of a training step are known to do.
  int round = microbatches;
  if (setup_.stages.last() > 0) {
    round = static_cast<int>(setup_.microbatches);
    microbatches = (microbatches + round - 1) / round * round;
  }
  const std::vector<i64> weights =
      loader_->prepare(SampleSet::validation, 0, samples, microbatches);
  losses_->begin(cx, weights, rank_.mesh->data_context());
  for (int first = 0; first < microbatches; first += round) {
    executor_.evaluate(cx, plan(round), [&](Context& c, int microbatch, Bundle& bundle) {
      loader_->load(c, first + microbatch, bundle);
    });
  }
  losses_->keep(cx);
  return losses_->flush(cx, *rank_.mesh).at(0).loss;
}

std::vector<float> Evaluation::logits(const std::vector<i32>& tokens, i64 position) {
  require(rank_.mesh->world_size() == 1, "logits are for one rank");
  Context cx = rank_.context();
  ModelParts& parts = model_.parts();
  const i64 n = setup_.batch.sequence;
  std::vector<i64> ids(static_cast<std::size_t>(n), 0), rows = ids, positions = ids;
  for (i64 i = 0; i < n; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (at < tokens.size()) ids[at] = tokens[at];
    rows[at] = row_id(0, i);
    positions[at] = i;
  }
  const auto load = [&](Context& c, int, Bundle& bundle) {
    const auto put = [&](std::string_view name, const std::vector<i64>& values) {
      const Tensor tensor = c.empty({n}, DType::i64);
      rank_.device->write(tensor, values.data());
      bundle[Slot{parts.slot(name)}] = tensor;
    };
    put("tokens", ids);
    put("rows", rows);
    put("positions", positions);
  };
  std::vector<float> values;
  executor_.evaluate(cx, plan(1), load, [&](Context&, int, Bundle& bundle) {
    const Tensor all = bundle[Slot{parts.slot(Model::kLogitsSlot)}];
    const Tensor row = all.slice(0, position, 1).slice(1, 0, setup_.model->vocabulary());
    const std::vector<double> exact = read_values(*rank_.device, row);
    values.assign(exact.begin(), exact.end());
  });
  return values;
}

}  // namespace tessera
