#include "kernel/train/execution/bundle_trace.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "kernel/dry/dry_rank.hpp"
#include "kernel/train/execution/live_chunk.hpp"
#include "kernel/train/execution/step_losses.hpp"

namespace tessera {

namespace {

i64 span_bytes(const TensorArg& tensor) {
  if (tensor.elements() == 0) return 0;
  i64 last = 0;
  for (int i = 0; i < tensor.rank; ++i) last += (tensor.shape[i] - 1) * tensor.strides[i];
  return (last + 1) * dtype_size(tensor.dtype);
}

std::vector<TracedValue> traced_values(const std::vector<Tensor>& tensors) {
  std::vector<TracedValue> values;
  for (const Tensor& tensor : tensors) {
    TracedValue& value = values.emplace_back();
    if (!tensor.defined()) continue;
    value = {true, bool(tensor.var()), tensor.shape(), tensor.dtype(), tensor.arg().address};
  }
  return values;
}

}  // namespace

void TracedChunk::touch(int phase, const TensorArg& tensor) {
  if (!tensor) return;
  const auto* begin = tensor.as<const std::byte>();
  touched_.at(static_cast<std::size_t>(phase)).push_back({begin, begin + span_bytes(tensor)});
}

std::vector<bool> TracedChunk::reads(int first, int last) const {
  const std::vector<TracedValue>& found = before(first);
  const std::vector<TracedValue>& left = before(last + 1);
  std::vector<bool> reads(found.size());
  for (std::size_t slot = 0; slot < found.size(); ++slot) {
    const TracedValue& value = found[slot];
    if (!value.defined) continue;
    const auto* begin = static_cast<const std::byte*>(value.address);
    const std::byte* end = begin + value.shape.elements() * dtype_size(value.dtype);
    for (int phase = first; phase <= last && !reads[slot]; ++phase) {
      reads[slot] = std::ranges::any_of(
          touched_[static_cast<std::size_t>(phase)],
          [&](const Bytes& bytes) { return bytes.begin < end && begin < bytes.end; });
    }
    for (std::size_t other = 0; other < left.size(); ++other) {  // it was moved there
      if (other != slot && left[other].address == value.address) reads[slot] = true;
    }
  }
  return reads;
}

bool TracedChunk::unchanged(std::size_t slot, int since, int phase) const {
  for (int at = since; at <= phase; ++at) {
    const TracedValue &a = before(since)[slot], &b = before(at)[slot];
    if (a.defined != b.defined || a.address != b.address) return false;
  }
  return true;
}

int TracedChunk::copies_before(int phase) const {
  while (--phase >= 0 && !copies_[static_cast<std::size_t>(phase)]) continue;
  return phase;
}

std::vector<TracedReadback> readbacks_of(const Plan& plan,
                                         const std::vector<Chunk>& chunks,
                                         const std::vector<TracedChunk>& traced) {
  std::map<std::pair<int, int>, int> forwards;  // by microbatch, phase of the plan
  std::set<int> copied;  // actions whose integers an earlier phase has waited for
  std::vector<TracedReadback> all;
  for (int i = 0; i < static_cast<int>(plan.actions.size()); ++i) {
    const PlanAction& action = plan.actions[static_cast<std::size_t>(i)];
    if (action.kind != PlanAction::F) continue;
    forwards[{action.microbatch, action.phase}] = i;
    const auto chunk = static_cast<std::size_t>(action.chunk);
    const PhaseInfo& info = plan.phases[static_cast<std::size_t>(action.phase)];
    if (chunks[chunk].phases()[static_cast<std::size_t>(info.phase)].reads.empty()) continue;
    const int copies = traced[chunk].copies_before(info.phase);
    if (copies < 0) continue;
    const int phase = action.phase - info.phase + copies;  // within the plan
    int from = phase;
    const auto graph_of = [&](int phase) {
      return plan.phases[static_cast<std::size_t>(phase)].graph;
    };
    while (from > 0 && graph_of(from) >= 0 && graph_of(from - 1) == graph_of(from)) --from;
    const int copy = forwards.at({action.microbatch, from});
    if (copied.insert(copy).second) all.push_back({copy, i, phase});
  }
  return all;
}

std::vector<TracedChunk> trace_bundles(const Rank& rank,
                                       const RunSetup& setup,
                                       const std::vector<SampleReader::Input>& inputs) {
  std::vector<TracedChunk> chunks;
  int phase = -1;  // that runs now; -1: none does
  bool forward = true;
  const auto touch = [&](const TensorArg& tensor) {
    if (phase >= 0) chunks.back().touch(phase, tensor);
  };
  DryEvents events;
  events.launched = [&](const Kernel& kernel, const void* args) {
    const auto* tensors = static_cast<const TensorArg*>(args);
    std::for_each(tensors, tensors + kernel.tensors, touch);
  };
  events.read = [&](const TensorArg& tensor) {
    touch(tensor);
    if (phase >= 0 && forward) chunks.back().copies_[static_cast<std::size_t>(phase)] = true;
  };
  events.collectives.started = [&](u64, const GroupSpec&, const Collective& collective) {
    touch(collective.input);
    for (const Transfer& sent : collective.sends) touch(sent.tensor);
  };
  const Rank dry = dry_rank(setup.layout, rank.mesh->rank(), rank.device, std::move(events));
  PlacedModel model(dry, setup);
  model.memory().allocate_gradients(*dry.device);
  StepLosses losses(model.parts(), 1, *dry.mesh, *dry.device);
  Tape tape;
  Context cx = dry.context();
  cx.tape = &tape;
  cx.sink = &losses;
  cx.loss_scale = cx.empty({1}, DType::fp64);

  for (const SampleReader::Input& input : inputs) model.parts().slot(input.info.name);
  const auto make = [&](const Shape& shape, DType dtype) { return cx.empty(shape, dtype); };
  const auto receive = [&](int boundary, const auto& take) {
    for (const BoundarySlot& slot : model.boundaries().at(static_cast<std::size_t>(boundary))) {
      take(Slot{model.parts().slot(slot.name)}, make(slot.shape, slot.dtype));
    }
  };
  const auto here = static_cast<int>(dry.mesh->coordinate(Axis::pipeline));
  for (const Chunk& chunk : model.chunks()) {
    TracedChunk& traced = chunks.emplace_back();
    const auto phases = static_cast<int>(chunk.phases().size());
    traced.touched_.resize(static_cast<std::size_t>(phases));
    traced.copies_.resize(static_cast<std::size_t>(phases));
    const int stage = setup.stages.stage_of_chunk(here, chunk.index());
    LiveChunk live(model.parts().bundle(), chunk.phases());
    std::vector<std::vector<Tensor>> kept;  // so that no address is used again
    for (const SampleReader::Input& input : inputs) {
      live.bundle()[Slot{model.parts().slot(input.info.name)}] =
          make({values_of(input.info, setup.batch)}, input.info.dtype);
    }
    if (stage > 0) {
      receive(stage - 1, [&](Slot slot, Tensor value) { live.receive(slot, std::move(value)); });
    }
    forward = true;
    for (phase = 0; phase < phases; ++phase) {
      traced.values_.push_back(traced_values(kept.emplace_back(live.bundle().tensors())));
      live.forward(cx, phase);
    }
    phase = -1;
    forward = false;
    traced.values_.push_back(traced_values(kept.emplace_back(live.bundle().tensors())));
    if (stage < setup.stages.last()) {
      receive(stage, [&](Slot slot, Tensor value) { live.set_gradient(slot, std::move(value)); });
    }
    for (phase = phases - 1; phase >= 0; --phase) live.backward(cx, phase, Half::both);
  }
  return chunks;
}

}  // namespace tessera
