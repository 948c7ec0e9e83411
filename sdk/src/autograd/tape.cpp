#include "tessera/tape.hpp"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

#include "sdk/src/shared/component_call.hpp"
#include "tessera/context.hpp"
#include "tessera/device/doing.hpp"
#include "tessera/error.hpp"
#include "tessera/ops.hpp"

namespace tessera {

namespace {

// Memory for the closures of one frame, taken in blocks that stay when the frame is used again.
class ClosureMemory {
 public:
  void* take(std::size_t bytes) {
    constexpr std::size_t kAlign = alignof(std::max_align_t), kBlock = 16384;
    bytes = (bytes + kAlign - 1) / kAlign * kAlign;
    while (block_ < blocks_.size() && used_ + bytes > blocks_[block_].bytes) {
      ++block_;
      used_ = 0;
    }
    if (block_ == blocks_.size()) {
      const std::size_t size = std::max(bytes, kBlock);
      blocks_.push_back({std::make_unique<std::byte[]>(size), size});
    }
    return blocks_[block_].memory.get() + std::exchange(used_, used_ + bytes);
  }
  void clear() { block_ = used_ = 0; }

 private:
  struct Block {
    std::unique_ptr<std::byte[]> memory;
    std::size_t bytes;
  };
  std::vector<Block> blocks_;
  std::size_t block_ = 0, used_ = 0;  // where the next one goes
};

}  // namespace

struct Tape::Frame {
  // Half of an operation, in the frame's memory.
  struct Closure {
    void* at = nullptr;
    const BackwardFn::Type* type = nullptr;

    explicit operator bool() const { return at != nullptr; }
    void operator()(Context& cx, Gradients& gradients) const { type->call(at, cx, gradients); }
    void reset() {
      if (void* gone = std::exchange(at, nullptr)) type->destroy(gone);
    }
  };
  struct Node {
    std::string_view name;
    u32 first_input, inputs;    // of `operands`
    u32 first_output, outputs;  // of values
    Closure input_half, weight_half;
    const Identity* owner;  // the component that recorded it, or nullptr
    bool reached = false;

    void reset() {
      input_half.reset();
      weight_half.reset();
    }
  };

  FrameId id = 0;
  std::vector<Node> nodes;
  std::vector<u32> operands;           // inputs of nodes, as values; 0: untracked
  std::vector<Shape> shapes{Shape{}};  // by value; value 0 does not exist
  std::vector<u32> roots;
  std::vector<u32> leaves, results;  // by position; 0: no gradient crosses
  std::vector<Gradient> gradients;   // by value, while a backward pass runs
  ClosureMemory memory;

  ~Frame() { clear(); }
  void clear() {
    for (Node& node : nodes) node.reset();
    nodes.clear();
    operands.clear();
    shapes.assign(1, {});
    roots.clear();
    leaves.clear();
    results.clear();
    gradients.clear();
    memory.clear();
  }
  u32 add_value(const Tensor& tensor) {
    shapes.push_back(tensor.shape());
    return static_cast<u32>(shapes.size() - 1);
  }
  Closure keep(const BackwardFn& function) {
    if (function.type_ == nullptr) return {};
    void* at = memory.take(function.type_->bytes);
    function.type_->make(at, function.from_);
    return {at, function.type_};
  }
  std::span<const u32> inputs_of(const Node& node) const {
    return std::span(operands).subspan(node.first_input, node.inputs);
  }
  std::span<Gradient> outputs_of(const Node& node) {
    return std::span(gradients).subspan(node.first_output, node.outputs);
  }
  void contribute(Context& cx, u32 value, Gradient gradient, std::string_view name);
};

struct Tape::State {
  using Frames = std::unordered_map<FrameId, std::unique_ptr<Frame>>;
  Frames frames;
  std::vector<Frames::node_type> spare;  // released: their memory is used again
  std::vector<Frame*> open;
  FrameId next = 1;

  Frame& make_frame() {
    FrameId id = next++;  // after 2^32 frames they come again
    while (id == 0 || frames.contains(id)) id = next++;
    if (spare.empty()) {
      frames.emplace(id, std::make_unique<Frame>());
    } else {
      spare.back().key() = id;
      frames.insert(std::move(spare.back()));
      spare.pop_back();
    }
    Frame& made = frame(id);
    made.id = id;
    return made;
  }
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

void Tape::Frame::contribute(Context& cx, u32 value, Gradient gradient, std::string_view name) {
  require(gradient.tensor.shape() == shapes[value],
          "\"{}\" gave a gradient of shape {} for a value of shape {}",
          name,
          gradient.tensor.shape(),
          shapes[value]);
  Gradient& entry = gradients[value];
  if (!entry.tensor.defined()) {
    entry = std::move(gradient);
    return;
  }
  entry.pending.wait(*cx.stream);
  gradient.pending.wait(*cx.stream);
  entry.pending = {};
  AddArgs args{entry.tensor.arg(), gradient.tensor.arg(), {}};
  if (entry.tensor.sole_owner() && entry.tensor.dense()) {
    args.out = entry.tensor.arg();
    ops::run(cx, args);
    return;
  }
  Tensor sum = cx.empty(gradient.tensor.shape(), gradient.tensor.dtype());
  args.out = sum.arg();
  ops::run(cx, args);
  entry.tensor = std::move(sum);
}

namespace {

// A backward pass over one frame. The weight half of a node runs after the input half of the node
// that is next, or before a wait, so that it overlaps the collective that is waited for.
template <class Frame>
struct Pass {
  using Node = typename Frame::Node;

  // Gradients around one node.
  class Around final : public Gradients {
   public:
    Around(Pass& pass, Node& node) : pass_(pass), node_(node) {}

    Half half() const override { return pass_.half; }
    Tensor output(int i) override { return waited(i).tensor; }
    Tensor take(int i) override { return std::exchange(waited(i).tensor, Tensor()); }
    bool wants(int i) const override { return input_value(i) != 0; }
    Tensor take_sum(int i) override {
      return std::exchange(waited(pass_.frame.gradients[input_value(i)]).tensor, Tensor());
    }
    void input(int i, Tensor gradient, Work pending) override {
      const u32 value = input_value(i);
      if (value == 0 || !gradient.defined()) return;
      pass_.frame.contribute(
          pass_.cx, value, {std::move(gradient), std::move(pending)}, node_.name);
    }

   private:
    u32 input_value(int i) const {
      require(
          i >= 0 && static_cast<u32>(i) < node_.inputs, "\"{}\" has no input {}", node_.name, i);
      return pass_.frame.inputs_of(node_)[static_cast<std::size_t>(i)];
    }
    Tape::Gradient& waited(int i) {
      require(
          i >= 0 && static_cast<u32>(i) < node_.outputs, "\"{}\" has no output {}", node_.name, i);
      return waited(pass_.frame.outputs_of(node_)[static_cast<std::size_t>(i)]);
    }
    Tape::Gradient& waited(Tape::Gradient& entry) {
      if (entry.pending.pending()) {
        pass_.run_deferred();
        entry.pending.wait(*pass_.cx.stream);
        entry.pending = {};
      }
      return entry;
    }

    Pass& pass_;
    Node& node_;
  };

  void input_half(Node& node) {
    const std::span<const u32> inputs = frame.inputs_of(node);
    if (node.input_half && std::ranges::any_of(inputs, [](u32 value) { return value != 0; })) {
      call(node, node.input_half);
    }
    node.input_half.reset();
  }
  void run_deferred() {
    Node* node = std::exchange(deferred, nullptr);
    if (node == nullptr) return;
    call(*node, node->weight_half);
    finish(*node);
  }
  void call(Node& node, const typename Frame::Closure& half) {
    Around gradients(*this, node);
    call_component(node.owner, "backward pass", [&] {
      const Doing doing("the backward pass of", node.name);
      half(cx, gradients);
    });
  }
  void finish(Node& node) {
    node.reset();
    for (Tape::Gradient& gradient : frame.outputs_of(node)) gradient = {};
  }

  Context& cx;
  Frame& frame;
  Half half;
  Node* deferred = nullptr;  // its weight half has not run yet
};

}  // namespace

Tape::Tape() : state_(std::make_unique<State>()) {}
Tape::~Tape() = default;

Tape::FrameId Tape::begin(std::span<Tensor> values) {
  Frame& frame = state_->make_frame();
  state_->open.push_back(&frame);
  frame.leaves.assign(values.size(), 0);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!values[i].defined() || !values[i].var()) continue;
    frame.leaves[i] = frame.add_value(values[i]);
    values[i] = values[i].with_var({frame.id, frame.leaves[i]});
  }
  return frame.id;
}

void Tape::end(std::span<const Tensor> results) {
  Frame& frame = state_->current();
  frame.results.assign(results.size(), 0);
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (results[i].defined() && tracks(results[i])) frame.results[i] = results[i].var().index;
  }
  state_->open.pop_back();
}

bool Tape::recording() const { return !state_->open.empty(); }

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
  const std::size_t first_input = frame.operands.size();
  bool recorded = weight_half.type_ != nullptr;
  for (const Tensor& input : inputs) {
    const bool tracked = tracks(input);
    recorded |= tracked;
    frame.operands.push_back(tracked ? input.var().index : 0);
  }
  if (!recorded) {
    frame.operands.resize(first_input);
    return;
  }
  const auto first_output = static_cast<u32>(frame.shapes.size());
  for (Tensor* output : outputs) *output = output->with_var({frame.id, frame.add_value(*output)});
  frame.nodes.push_back({name,
                         static_cast<u32>(first_input),
                         static_cast<u32>(inputs.size()),
                         first_output,
                         static_cast<u32>(outputs.size()),
                         frame.keep(input_half),
                         frame.keep(weight_half),
                         Doing::component()});
}

void Tape::root(const Tensor& scalar) {
  if (tracks(scalar)) state_->current().roots.push_back(scalar.var().index);
}

std::vector<Tape::Gradient> Tape::gradients(const std::vector<Tensor>& tensors) {
  std::vector<Gradient> made(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) made[i].tensor = tensors[i];
  return made;
}

void Tape::backward(Context& cx, FrameId id, Half half, std::vector<Gradient>& gradients) {
  Frame& frame = state_->frame(id);
  require(std::ranges::find(state_->open, &frame) == state_->open.end(),
          "backward of a tape frame that is still recording");
  Pass<Frame> pass{cx, frame, half};
  if (half == Half::weight) {
    for (auto node = frame.nodes.rbegin(); node != frame.nodes.rend(); ++node) {
      if (node->reached && node->weight_half) pass.deferred = &*node;
      pass.run_deferred();
    }
    release(id);
    return;
  }

  require(gradients.size() >= frame.results.size(),
          "a tape frame with {} results is given {} gradients",
          frame.results.size(),
          gradients.size());
  frame.gradients.clear();
  frame.gradients.resize(frame.shapes.size());
  for (std::size_t i = 0; i < frame.results.size(); ++i) {
    Gradient gradient = std::exchange(gradients[i], {});
    if (frame.results[i] == 0 || !gradient.tensor.defined()) continue;
    frame.contribute(cx, frame.results[i], std::move(gradient), "seed");
  }
  for (const u32 root : frame.roots) frame.contribute(cx, root, {cx.loss_scale}, "root");
  for (auto node = frame.nodes.rbegin(); node != frame.nodes.rend(); ++node) {
    node->reached = std::ranges::any_of(
        frame.outputs_of(*node), [](const Gradient& output) { return output.tensor.defined(); });
    if (!node->reached) {
      node->reset();
      continue;
    }
    pass.input_half(*node);
    pass.run_deferred();
    if (!node->weight_half) {
      pass.finish(*node);
    } else if (half == Half::both) {
      pass.deferred = &*node;
    }
  }
  pass.run_deferred();

  gradients.clear();
  gradients.resize(frame.leaves.size());
  for (std::size_t i = 0; i < frame.leaves.size(); ++i) {
    if (frame.leaves[i] == 0) continue;
    gradients[i] = std::exchange(frame.gradients[frame.leaves[i]], {});
  }
  if (half == Half::both) release(id);
}

void Tape::arrive(Context& cx, FrameId id, std::vector<Gradient>& gradients) {
  const Frame& frame = state_->frame(id);
  const std::size_t count = std::min(frame.results.size(), gradients.size());
  for (auto node = frame.nodes.rbegin(); node != frame.nodes.rend(); ++node) {
    const auto made = [&](u32 value) {
      return value >= node->first_output && value - node->first_output < node->outputs;
    };
    bool first = std::ranges::any_of(frame.roots, made);  // that the pass comes to
    for (std::size_t i = 0; i < count; ++i) {
      if (!gradients[i].tensor.defined() || !made(frame.results[i])) continue;
      first = true;
      gradients[i].pending.wait(*cx.stream);
    }
    if (first) return;
  }
}

void Tape::wait(Context& cx, FrameId id) {
  for (Gradient& gradient : state_->frame(id).gradients) {
    gradient.pending.wait(*cx.stream);
    gradient.pending = {};
  }
}

void Tape::release(FrameId id) {
  auto released = state_->frames.extract(id);
  if (released.empty()) return;
  released.mapped()->clear();
  state_->spare.push_back(std::move(released));
}

int Tape::live_frames() const { return static_cast<int>(state_->frames.size()); }

}  // namespace tessera
