#include "kernel/train/execution/model_graphs.hpp"

#include <algorithm>

#include "kernel/train/execution/step_losses.hpp"
#include "tessera/error.hpp"

namespace tessera {

void require_capturable(const Mesh& mesh, std::string_view policy) {
  for (const auto& group : mesh.all()) {
    require(group->capturable(),
            "[graph] type = \"{}\": the communicator of {} cannot record collectives in graphs; "
            "choose type = \"none\", or another [comm] type",
            policy,
            group->name());
  }
}

ModelGraphs::ModelGraphs(PlacedModel& model,
                         const Plan& plan,
                         const Context& cx,
                         const std::vector<SampleReader::Input>& inputs)
    : model_(model),
      setup_(model.setup()),
      plan_(plan),
      cx_(cx),
      graphs_(plan_graphs(plan)),
      blank_(model.rank().device) {
  const std::vector<TracedChunk> traced = trace_bundles(model.rank(), setup_, inputs);
  warm_up(traced, *model.rank().mesh);
  capture(traced);
  check_memory(
      plan_, graphs_, [this](std::size_t segment, int slot) { return memory(segment, slot); });
  list_ranges();
}

Bundle ModelGraphs::example(const TracedChunk& traced, int phase) {
  Bundle bundle = model_.parts().bundle();
  const std::vector<TracedValue>& values = traced.before(phase);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const TracedValue& value = values[i];
    if (!value.defined) continue;
    const Tensor blank = Tensor::allocate(
        blank_, blank_.pool(), blank_.stream(), value.shape, value.dtype, Category::graph);
    bundle.tensors()[i] = blank.with_var(value.gradient ? kNeedsGradient : Var());
  }
  return bundle;
}

CapturedPhases ModelGraphs::captured(const Segment& segment, const TracedChunk& traced) const {
  const CapturedRange& range = segment.range;
  const Chunk& chunk = model_.chunks().at(static_cast<std::size_t>(range.chunk));
  const std::vector<ModelLayer> layers = setup_.model->layers();
  CapturedPhases out;
  out.phases = std::span(chunk.phases())
                   .subspan(static_cast<std::size_t>(range.first_phase),
                            static_cast<std::size_t>(range.last_phase - range.first_phase + 1));
  out.chosen = fmt::format("{}: [graph] ", setup_.maker->origin("graph", "type"));
  out.split_halves = segment.split;
  out.recompute = segment.recompute;
  out.keep_boundaries = setup_.config->check.graphs_every > 0;
  out.reads = traced.reads(range.first_phase, range.last_phase);
  std::vector<int> numbers;
  for (int phase = range.first_phase; phase <= range.last_phase; ++phase) {
    const PhaseInfo& info = chunk.infos()[static_cast<std::size_t>(phase)];
    numbers.push_back(info.layer);
    out.layers.push_back(info.layer < 0 ? "stage"
                                        : layers[static_cast<std::size_t>(info.layer)].name);
  }
  out.name = fmt::format("{} {}", out.layers.front(), out.phases.front().scope);
  if (out.phases.size() > 1) {
    const bool one = out.layers.front() == out.layers.back();
    out.name +=
        fmt::format(" to {}{}", one ? "" : out.layers.back() + " ", out.phases.back().scope);
  }
  for (const ModelParts::Entry& entry : model_.parts().parameters()) {
    const bool here = std::ranges::any_of(
        entry.layers, [&](int layer) { return std::ranges::count(numbers, layer) > 0; });
    if (here) out.parameters.push_back(entry.parameter.get());
  }
  for (const auto& buffer : model_.parts().buffers()) {
    if (!buffer->constant()) out.written.push_back(buffer->value);
  }
  return out;
}

void ModelGraphs::warm_up(const std::vector<TracedChunk>& traced, const Mesh& mesh) {
  StepLosses unread(model_.parts(), 1, mesh, *cx_.device);
  unread.clear(cx_);
  i64 scratch = 0, recomputed = 0;
  for (const Segment& segment : graphs_.segments) {
    const TracedChunk& of = traced.at(static_cast<std::size_t>(segment.range.chunk));
    const auto& slots =
        slots_.emplace_back(std::make_unique<GraphSlots>(cx_,
                                                         captured(segment, of),
                                                         example(of, segment.range.first_phase),
                                                         graphs_.slots_of(segment),
                                                         &unread));
    scratch = std::max(scratch, slots->scratch_bytes());
    recomputed = std::max(recomputed, slots->lifetimes().bytes(Lifetime::recomputed));
  }
  const auto arena = [&](i64 bytes) {
    return bytes > 0 ? std::make_unique<Arena>(cx_.device->pool(), bytes, *cx_.stream) : nullptr;
  };
  scratch_ = arena(scratch);
  recomputed_ = arena(recomputed);
}

std::vector<std::size_t> ModelGraphs::segments_of(int chunk) const {
  std::vector<std::size_t> list;
  for (std::size_t i = 0; i < graphs_.segments.size(); ++i) {
    if (graphs_.segments[i].range.chunk == chunk) list.push_back(i);
  }
  return list;
}

void ModelGraphs::capture(const std::vector<TracedChunk>& traced) {
  const SlotArenas shared = {scratch_.get(), recomputed_.get(), nullptr};
  for (int chunk = 0; chunk < static_cast<int>(traced.size()); ++chunk) {
    const auto at = static_cast<std::size_t>(chunk);
    for (int slot = 0; slot < graphs_.slots[at]; ++slot) {
      capture_forward(chunk, slot, traced[at], shared);
      capture_backward(chunk, slot);
    }
  }
}

// What one range leaves in its slot, the next finds there, unless phases between have changed it.
void ModelGraphs::capture_forward(int chunk,
                                  int slot,
                                  const TracedChunk& traced,
                                  const SlotArenas& shared) {
  std::vector<Tensor> left;  // by bundle slot
  int since = 0;             // the phase that `left` was there before
  for (const std::size_t segment : segments_of(chunk)) {
    const CapturedRange& range = graphs_.segments[segment].range;
    for (std::size_t i = 0; i < left.size(); ++i) {
      if (!traced.unchanged(i, since, range.first_phase)) left[i] = {};
    }
    slots_[segment]->capture_forward(slot, left, shared);
    left = slots_[segment]->results(slot);
    since = range.last_phase + 1;
  }
}

void ModelGraphs::capture_backward(int chunk, int slot) {
  const std::vector<Tensor>* left = nullptr;
  int until = -1;  // the phase that `left` are gradients before
  const std::vector<std::size_t> segments = segments_of(chunk);
  for (auto at = segments.rbegin(); at != segments.rend(); ++at) {
    const CapturedRange& range = graphs_.segments[*at].range;
    const bool next = left != nullptr && until == range.last_phase + 1;
    slots_[*at]->capture_backward(slot, next ? *left : std::vector<Tensor>());
    left = &slots_[*at]->input_gradients(slot);
    until = range.first_phase;
  }
}

void ModelGraphs::list_ranges() {
  for (const auto& slots : slots_) {
    for (int slot = 0; slot < slots->count(); ++slot) {
      for (const GraphMemory& memory : slots->memory(slot)) {
        for (const AddressRange& range : memory.kept) {
          held_.emplace_back(range.address,
                             static_cast<const std::byte*>(range.address) + range.bytes);
        }
      }
    }
  }
  std::ranges::sort(held_);
}

bool ModelGraphs::holds(const Tensor& tensor) const {
  if (!tensor.defined()) return false;
  const void* address = tensor.arg().address;
  const auto after =
      std::ranges::upper_bound(held_, address, {}, [](const auto& range) { return range.first; });
  return after != held_.begin() && address < std::prev(after)->second;
}

void ModelGraphs::check_next() {
  checked_.clear();
  to_check_.assign(graphs_.slots.size(), true);
}

void ModelGraphs::attach(int microbatch, int chunk, LiveChunk& live) {
  const int slot =
      graphs_.of.at(static_cast<std::size_t>(chunk)).at(static_cast<std::size_t>(microbatch));
  if (slot < 0) return;
  const auto at = static_cast<std::size_t>(chunk);
  const bool check = at < to_check_.size() && to_check_[at];
  if (check) to_check_[at] = false;
  for (const std::size_t segment : segments_of(chunk)) {
    const CapturedRange& range = graphs_.segments[segment].range;
    PhaseFrame* frame = &slots_[segment]->frame(slot);
    if (check) {
      frame = checked_
                  .emplace_back(std::make_unique<CheckedFrame>(
                      *slots_[segment], slot, model_.parts().slots()))
                  .get();
    }
    live.set_frame(range.first_phase, range.last_phase, *frame);
  }
}

GraphUse ModelGraphs::use() const {
  GraphUse out;
  out.segments = static_cast<int>(graphs_.segments.size());
  out.graphs = graphs_.graphs();
  out.live_pairs = graphs_.live_pairs;
  for (const int slots : graphs_.slots) out.slots += slots;
  for (const auto& slots : slots_) {
    out.input_bytes += slots->input_bytes();
    out.slot_bytes += slots->slot_bytes();
  }
  for (const auto* arena : {scratch_.get(), recomputed_.get()}) {
    if (arena != nullptr) out.scratch_bytes += arena->bytes();
  }
  return out;
}

}  // namespace tessera
