#include "tessera/tape.hpp"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

#include "tessera/context.hpp"
#include "tessera/core_ops.hpp"
#include "tessera/error.hpp"

namespace tessera {

namespace {

struct Gradient {
  Tensor tensor;
  Work pending;
};

struct Node {
  std::string_view name;
  std::vector<u32> inputs;  // 0: untracked
  std::vector<u32> outputs;
  BackwardFn input_half, weight_half;
  bool reached = false;
};

}  // namespace

struct Tape::Frame {
  FrameId id = 0;
  std::vector<Node> nodes;
  std::vector<Shape> shapes{Shape{}};  // by value; value 0 does not exist
  std::vector<u32> roots;
  std::vector<Gradient> gradients;  // by value, while a backward pass runs

  u32 add_value(const Tensor& tensor) {
    shapes.push_back(tensor.shape());
    return static_cast<u32>(shapes.size() - 1);
  }
  void contribute(Context& cx, u32 value, Tensor gradient, Work pending, std::string_view name);
};

struct Tape::State {
  std::unordered_map<FrameId, std::unique_ptr<Frame>> frames;
  std::vector<Frame*> open;
  FrameId next = 1;

  Frame& frame(FrameId id) {
    const auto found = frames.find(id);
    require(found != frames.end(), "tape frame {} does not exist or was released", id);
    return *found->second;
  }
  Frame& current() {
    require(!open.empty(), "the tape is not recording: begin() a frame first");
    return *open.back();
  }
};

namespace {

// Gradients around one node. Weight halves of earlier nodes run before a wait, so that they overlap
// the collective that is waited for.
class NodeGradients final : public Gradients {
 public:
  template <class Frame, class Flush>
  NodeGradients(Context& cx, Frame& frame, Node& node, Half half, Flush&& flush)
      : cx_(cx),
        node_(node),
        half_(half),
        entry_([&frame](u32 value) -> Gradient& { return frame.gradients[value]; }),
        contribute_([&](u32 value, Tensor gradient, Work pending) {
          frame.contribute(cx, value, std::move(gradient), std::move(pending), node.name);
        }),
        flush_(std::forward<Flush>(flush)) {}

  Half half() const override { return half_; }
  Tensor output(int i) override {
    Gradient& entry = entry_(node_.outputs.at(static_cast<std::size_t>(i)));
    if (entry.pending.pending()) {
      flush_();
      entry.pending.wait(*cx_.stream);
      entry.pending = {};
    }
    return entry.tensor;
  }
  Tensor take(int i) override {
    output(i);
    return std::exchange(entry_(node_.outputs[static_cast<std::size_t>(i)]).tensor, Tensor());
  }
  bool wants(int i) const override { return node_.inputs.at(static_cast<std::size_t>(i)) != 0; }
  void input(int i, Tensor gradient, Work pending) override {
    const u32 value = node_.inputs.at(static_cast<std::size_t>(i));
    if (value != 0 && gradient.defined()) {
      contribute_(value, std::move(gradient), std::move(pending));
    }
  }

 private:
  Context& cx_;
  Node& node_;
  Half half_;
  std::function<Gradient&(u32)> entry_;
  std::function<void(u32, Tensor, Work)> contribute_;
  std::function<void()> flush_;
};

}  // namespace

void Tape::Frame::contribute(
    Context& cx, u32 value, Tensor gradient, Work pending, std::string_view name) {
  require(gradient.shape() == shapes[value],
          "\"{}\" gave a gradient of shape {} for a value of shape {}",
          name,
          gradient.shape(),
          shapes[value]);
  Gradient& entry = gradients[value];
  if (!entry.tensor.defined()) {
    entry = {std::move(gradient), std::move(pending)};
    return;
  }
  entry.pending.wait(*cx.stream);
  pending.wait(*cx.stream);
  entry.pending = {};
  AddArgs args{entry.tensor.arg(), gradient.arg(), {}};
  if (entry.tensor.sole_owner() && entry.tensor.dense()) {
    args.out = entry.tensor.arg();
    cx.ops->add.launch(*cx.stream, *cx.pool, args);
    return;
  }
  Tensor sum = cx.empty(gradient.shape(), gradient.dtype());
  args.out = sum.arg();
  cx.ops->add.launch(*cx.stream, *cx.pool, args);
  entry.tensor = std::move(sum);
}

Tape::Tape() : state_(std::make_unique<State>()) {}
Tape::~Tape() = default;

Tape::FrameId Tape::begin() {
  const FrameId id = state_->next++;
  auto frame = std::make_unique<Frame>();
  frame->id = id;
  state_->open.push_back(frame.get());
  state_->frames.emplace(id, std::move(frame));
  return id;
}

void Tape::end() {
  state_->current();
  state_->open.pop_back();
}

bool Tape::recording() const { return !state_->open.empty(); }

Tensor Tape::leaf(const Tensor& value) {
  Frame& frame = state_->current();
  return value.with_var({frame.id, frame.add_value(value)});
}

bool Tape::tracks(const Tensor& value) const {
  if (!value.var()) return false;
  const Frame& frame = state_->current();
  require(value.var().frame == frame.id,
          "a tensor {} of another phase is used here: what crosses a phase boundary crosses in the "
          "bundle",
          value);
  return true;
}

void Tape::record(std::string_view name,
                  std::span<const Tensor> inputs,
                  std::span<Tensor* const> outputs,
                  BackwardFn input_half,
                  BackwardFn weight_half) {
  Frame& frame = state_->current();
  Node node{name, {}, {}, std::move(input_half), std::move(weight_half)};
  bool tracked = false;
  for (const Tensor& input : inputs) {
    const bool tracks_it = tracks(input);
    tracked |= tracks_it;
    node.inputs.push_back(tracks_it ? input.var().index : 0);
  }
  if (!tracked && !node.weight_half) return;
  for (Tensor* output : outputs) {
    const u32 value = frame.add_value(*output);
    *output = output->with_var({frame.id, value});
    node.outputs.push_back(value);
  }
  frame.nodes.push_back(std::move(node));
}

void Tape::root(const Tensor& scalar) {
  if (tracks(scalar)) state_->current().roots.push_back(scalar.var().index);
}

std::vector<Tape::Result> Tape::backward(
    Context& cx, FrameId id, Half half, std::span<Seed> seeds, std::span<const Var> into) {
  Frame& frame = state_->frame(id);
  require(std::ranges::find(state_->open, &frame) == state_->open.end(),
          "backward of a tape frame that is still recording");

  Node* deferred = nullptr;  // its weight half has not run yet
  const auto flush = [&] {
    Node* node = std::exchange(deferred, nullptr);
    if (node == nullptr) return;
    NodeGradients gradients(cx, frame, *node, half, [] {});
    node->weight_half(cx, gradients);
    *node = {};
  };
  const auto finish = [&](Node& node) {
    for (const u32 value : node.outputs) frame.gradients[value] = {};
  };

  if (half == Half::weight) {
    for (auto node = frame.nodes.rbegin(); node != frame.nodes.rend(); ++node) {
      if (!node->reached || !node->weight_half) continue;
      deferred = &*node;
      const std::vector<u32> outputs = node->outputs;
      flush();
      for (const u32 value : outputs) frame.gradients[value] = {};
    }
    return {};
  }

  frame.gradients.clear();
  frame.gradients.resize(frame.shapes.size());
  for (Seed& seed : seeds) {
    if (!seed.gradient.defined()) continue;
    require(seed.value.frame == id, "a seed gradient is not for a value of this frame");
    frame.contribute(cx, seed.value.index, seed.gradient, std::move(seed.pending), "seed");
  }
  for (const u32 root : frame.roots) frame.contribute(cx, root, cx.loss_scale, {}, "root");

  std::vector<u32> deferred_outputs;
  const auto flush_and_free = [&] {
    if (deferred == nullptr) return;
    flush();
    for (const u32 value : deferred_outputs) frame.gradients[value] = {};
  };
  for (auto node = frame.nodes.rbegin(); node != frame.nodes.rend(); ++node) {
    node->reached = std::ranges::any_of(
        node->outputs, [&](u32 value) { return frame.gradients[value].tensor.defined(); });
    if (!node->reached) {
      *node = {};
      continue;
    }
    const bool wanted = std::ranges::any_of(node->inputs, [](u32 value) { return value != 0; });
    if (node->input_half && wanted) {
      NodeGradients gradients(cx, frame, *node, half, flush_and_free);
      node->input_half(cx, gradients);
    }
    node->input_half = {};
    flush_and_free();
    if (!node->weight_half) {
      finish(*node);
      *node = {};
    } else if (half == Half::both) {
      deferred = &*node;
      deferred_outputs = node->outputs;
    }
  }
  flush_and_free();

  std::vector<Result> results;
  for (const Var& leaf : into) {
    require(leaf.frame == id, "a gradient is asked for a value of another frame");
    Gradient& entry = frame.gradients[leaf.index];
    results.push_back({std::move(entry.tensor), std::move(entry.pending)});
    entry = {};
  }
  return results;
}

void Tape::release(FrameId frame) { state_->frames.erase(frame); }
int Tape::live_frames() const { return static_cast<int>(state_->frames.size()); }

}  // namespace tessera
