#include "kernel/train/execution/evaluation.hpp"

#include <algorithm>

#include "kernel/train/execution/row_sums.hpp"
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

StepLosses::Row Evaluation::validate(i64 samples) {
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
  StepLosses::Row row = losses_->flush(cx).at(0);
  std::erase_if(row.metrics, [&](const auto& metric) { return !of_validation(metric.first); });
  return row;
}

// Is it a part of the loss, or a mean over what the loss is a mean over?
bool Evaluation::of_validation(const std::string& metric) const {
  const ModelParts& parts = model_.parts();
  return std::ranges::any_of(parts.losses(),
                             [&](const ModelParts::LossInfo& loss) {
                               return !loss.auxiliary && loss.name == metric;
                             }) ||
         std::ranges::any_of(parts.metrics(), [&](const ModelParts::MetricInfo& of) {
           return of.of_validation && of.name == metric;
         });
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

std::unique_ptr<SequenceCache> Evaluation::make_cache(i64 sequences) const {
  const auto incremental = [](const Chunk& chunk) {
    return std::ranges::all_of(chunk.phases(), &Phase::incremental);
  };
  // One row does not divide among the ranks of a tensor group.
  const bool whole_rows = !setup_.config->parallel.sequence_parallel;
  if (!whole_rows || !std::ranges::all_of(model_.chunks(), incremental)) return nullptr;
  return std::make_unique<SequenceCache>(
      model_.parts().cache_slots(), sequences, setup_.batch.sequence);
}

Context Evaluation::generating() {
  const Mesh& mesh = *rank_.mesh;
  require(mesh.size(Axis::pipeline) == 1 && mesh.size(Axis::context) == 1,
          "logits are not for a pipeline or context parallelism");
  Context cx = rank_.context();
  model_.prepared().prepare_all(cx);
  return cx;
}

std::vector<float> Evaluation::logits(std::span<const i32> tokens) {
  Context cx = generating();
  const i64 length = setup_.batch.sequence, seen = static_cast<i64>(tokens.size());
  cx.seen = seen;
  Rows rows{.first = seen - 1};
  for (i64 i = 0; i < setup_.batch.rows(); ++i) {
    const i64 position = i % length;
    const bool real = position < seen;
    rows.ids.push_back(real ? tokens[static_cast<std::size_t>(position)] : 0);
    rows.rows.push_back(real ? row_id(i / length, position) : padding_row(position));
    rows.positions.push_back(position);
  }
  return logits_of(cx, rows).at(0);
}

// The rows of the run that the cache has begun.
Evaluation::Rows Evaluation::rows_of(std::span<const i32> tokens,
                                     Context& cx,
                                     SequenceCache& cache) {
  const SequenceCache::Run& run = cache.run();
  cx.cache = &cache;
  Rows rows{.first = run.rows - 1, .count = run.sequences};
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const i64 at = static_cast<i64>(i), sequence = run.first + at / run.rows;
    rows.ids.push_back(tokens[i]);
    rows.positions.push_back(cache.length(sequence) + at % run.rows);
    rows.rows.push_back(row_id(sequence, rows.positions.back()));
  }
  return rows;
}

std::vector<std::vector<float>> Evaluation::logits(std::span<const i32> tokens,
                                                   SequenceCache& cache,
                                                   const SequenceCache::Run& run) {
  Context cx = generating();
  require(static_cast<i64>(tokens.size()) == run.sequences * run.rows,
          "a run over {} rows got {} tokens",
          run.sequences * run.rows,
          tokens.size());
  cache.begin(cx, run);
  std::vector<std::vector<float>> found = logits_of(cx, rows_of(tokens, cx, cache));
  cache.advance();
  return found;
}

std::vector<double> Evaluation::row_sums(std::span<const i32> tokens,
                                         SequenceCache& cache,
                                         i64 sequence) {
  Context cx = generating();
  require(tokens.size() >= 2, "a row has no target");
  cache.begin(cx, {.first = sequence, .rows = static_cast<i64>(tokens.size()) - 1});
  Rows rows = rows_of(tokens.first(tokens.size() - 1), cx, cache);
  rows.targets.assign(tokens.begin() + 1, tokens.end());
  RowSums sums(model_.parts(), *rank_.device);
  cx.sink = &sums;
  std::vector<double> found;
  forward(cx, rows, [&](Context& c, int, Bundle&) { found = sums.take(c, cache.run().rows); });
  cache.advance();
  return found;
}

void Evaluation::move(SequenceCache& cache, i64 from, i64 to) {
  Context cx = rank_.context();
  cache.move(cx, from, to);
}

void Evaluation::forward(Context& cx, const Rows& rows, const Executor::Done& done) {
  ModelParts& parts = model_.parts();
  const i64 n = static_cast<i64>(rows.ids.size());
  const auto load = [&](Context& c, int, Bundle& bundle) {
    const auto put = [&](std::string_view name, DType dtype, const void* values) {
      const Tensor tensor = c.empty({n}, dtype);
      rank_.device->write(tensor, values);
      bundle[Slot{parts.slot(name)}] = tensor;
    };
    put("tokens", DType::i64, rows.ids.data());
    put("row_ids", DType::i64, rows.rows.data());
    put("positions", DType::i64, rows.positions.data());
    if (rows.targets.empty()) return;
    const std::vector<u8> all(static_cast<std::size_t>(n), 1);
    put("targets", DType::i64, rows.targets.data());
    put("loss_mask", DType::u8, all.data());
  };
  executor_.evaluate(cx, plan(1), load, done);
}

std::vector<std::vector<float>> Evaluation::logits_of(Context& cx, const Rows& rows) {
  const ProcessGroup& tensor = rank_.mesh->group(Axis::tensor);
  i64 local = 0;  // of the vocabulary, on each rank
  std::vector<float> parts_of_ranks;
  forward(cx, rows, [&](Context&, int, Bundle& bundle) {
    const Tensor logits = bundle[Slot{model_.parts().slot(Model::kLogitsSlot)}];
    local = logits.shape()[1];
    const i64 own_size = rows.count * local;
    const Tensor wide = cx.empty({own_size * tensor.size()}, DType::fp32);
    const Tensor own = wide.slice(0, tensor.index() * own_size, own_size);
    const Tensor wanted = logits.slice(0, rows.first, rows.count);
    ops::run(cx, CopyArgs{wanted.arg(), own.view({rows.count, local}).arg()});
    rank_.mesh->group(Axis::tensor).all_gather(*cx.stream, own, wide, "logits").wait(*cx.stream);
    parts_of_ranks.resize(static_cast<std::size_t>(own_size * tensor.size()));
    rank_.device->read(wide, parts_of_ranks.data());
  });
  std::vector<std::vector<float>> found(static_cast<std::size_t>(rows.count));
  const i64 known = setup_.model->vocabulary();  // without padding
  for (i64 row = 0; row < rows.count; ++row) {
    std::vector<float>& values = found[static_cast<std::size_t>(row)];
    for (i64 rank = 0; rank < tensor.size(); ++rank) {
      const auto begin = parts_of_ranks.begin() + (rank * rows.count + row) * local;
      values.insert(values.end(), begin, begin + local);
    }
    values.resize(static_cast<std::size_t>(known));
  }
  return found;
}

}  // namespace tessera
