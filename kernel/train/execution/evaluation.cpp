#include "kernel/train/execution/evaluation.hpp"

#include <algorithm>

#include "tessera/base/sequence_cache.hpp"
#include "tessera/error.hpp"
#include "tessera/ops.hpp"
#include "tessera/random.hpp"

namespace tessera {

Evaluation::Evaluation(PlacedModel& model)
    : rank_(model.rank()),
      model_(model),
      setup_(model.setup()),
      executor_(model.chunks(), model.parts(), nullptr, *rank_.mesh, model.boundaries()) {}

const Plan& Evaluation::plan(int microbatches) {
  const auto known = plans_.find(microbatches);
  if (known != plans_.end()) return known->second;
  return plans_.emplace(microbatches, model_.plan(microbatches, false)).first->second;
}

double Evaluation::validate(i64 samples) {
  // Rounds of as many microbatches as a training step has: schedules are known to take those.
  const auto round = static_cast<int>(setup_.microbatches);
  if (inputs_ == nullptr) {
    inputs_ = std::make_unique<StepInputs>(
        *setup_.dataset, model_.parts(), setup_.batch, *rank_.mesh, *rank_.device, round);
    losses_ = std::make_unique<StepLosses>(model_.parts(), 1, *rank_.mesh, *rank_.device);
  }
  const int microbatches = inputs_->reader().microbatches(samples);
  Context cx = rank_.context();
  model_.prepared().prepare_all(cx);
  cx.sink = losses_.get();
  losses_->begin(cx, validation_weights(samples, microbatches), rank_.mesh->data_context());
  const auto request = [&](int from) {
    return StepInputs::Request{SampleSet::validation, 0, samples, from};
  };
  for (int from = 0; from < microbatches; from += round) {
    const StepInputs::Request next = request(from + round);
    inputs_->upload(cx, request(from), next.from < microbatches ? &next : nullptr, 0);
    executor_.evaluate(cx, plan(round), [&](Context&, int microbatch, Bundle& bundle) {
      inputs_->load(microbatch, bundle);
    });
  }
  losses_->keep(cx);
  return losses_->flush(cx).at(0).loss;
}

// This rank's weights over all rounds, which are known before the first forward.
Tensor Evaluation::validation_weights(i64 samples, int microbatches) const {
  const SampleReader& reader = inputs_->reader();
  std::vector<i64> weights(static_cast<std::size_t>(reader.losses()), 0);
  std::vector<std::byte> one(static_cast<std::size_t>(reader.microbatch_bytes()));
  for (int j = 0; j < microbatches; ++j) {
    reader.read(SampleSet::validation, 0, samples, j, 1, one.data(), weights);
  }
  Device& device = *rank_.device;
  Tensor tensor = Tensor::allocate(device,
                                   device.pool(),
                                   device.stream(),
                                   {reader.losses()},
                                   DType::i64,
                                   Category::communication);
  device.write(tensor, weights.data());
  return tensor;
}

std::unique_ptr<SequenceCache> Evaluation::make_cache() const {
  const auto incremental = [](const Chunk& chunk) {
    return std::ranges::all_of(chunk.phases(), &Phase::incremental);
  };
  // One row does not divide among the ranks of a tensor group.
  const bool whole_rows = !setup_.config->parallel.sequence_parallel;
  if (!whole_rows || !std::ranges::all_of(model_.chunks(), incremental)) return nullptr;
  return std::make_unique<SequenceCache>(model_.parts().cache_slots(), setup_.batch.sequence);
}

std::vector<float> Evaluation::logits(std::span<const i32> tokens, SequenceCache* cache) {
  const Mesh& mesh = *rank_.mesh;
  require(mesh.size(Axis::pipeline) == 1 && mesh.size(Axis::context) == 1,
          "logits are not for a pipeline or context parallelism");
  Context cx = rank_.context();
  model_.prepared().prepare_all(cx);
  cx.cache = cache;
  ModelParts& parts = model_.parts();
  const auto seen = static_cast<i64>(tokens.size());
  const i64 first = cache != nullptr ? cache->length() : 0;
  const i64 length = cache != nullptr ? seen : setup_.batch.sequence;
  cx.seen = cache != nullptr ? 0 : seen;
  const i64 n = cache != nullptr ? seen : setup_.batch.rows();
  std::vector<i64> ids(static_cast<std::size_t>(n), 0), rows = ids, positions = ids;
  for (i64 i = 0; i < n; ++i) {
    const auto at = static_cast<std::size_t>(i), of_sample = static_cast<std::size_t>(i % length);
    const bool real = of_sample < tokens.size();
    if (real) ids[at] = tokens[of_sample];
    positions[at] = first + i % length;
    rows[at] = real ? row_id(i / length, positions[at]) : padding_row(positions[at]);
  }
  const auto load = [&](Context& c, int, Bundle& bundle) {
    const auto put = [&](std::string_view name, const std::vector<i64>& values) {
      const Tensor tensor = c.empty({n}, DType::i64);
      rank_.device->write(tensor, values.data());
      bundle[Slot{parts.slot(name)}] = tensor;
    };
    put("tokens", ids);
    put("row_ids", rows);
    put("positions", positions);
  };
  std::vector<float> values;
  executor_.evaluate(cx, plan(1), load, [&](Context&, int, Bundle& bundle) {
    const Tensor all = bundle[Slot{parts.slot(Model::kLogitsSlot)}];
    const Tensor row = all.slice(0, seen - 1, 1);
    const ProcessGroup& tensor = mesh.group(Axis::tensor);
    const i64 local = row.shape()[1], whole = local * tensor.size();
    const Tensor wide = cx.empty({whole}, DType::fp32);
    const Tensor own = wide.slice(0, tensor.index() * local, local);
    ops::run(cx, CopyArgs{row.view({local}).arg(), own.arg()});
    mesh.group(Axis::tensor).all_gather(*cx.stream, own, wide, "logits").wait(*cx.stream);
    values.resize(static_cast<std::size_t>(whole));
    rank_.device->read(wide, values.data());
  });
  values.resize(static_cast<std::size_t>(setup_.model->vocabulary()));  // without padding
  if (cache != nullptr) cache->advance(n);
  return values;
}

}  // namespace tessera
