#pragma once
#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "tessera/base/work.hpp"
#include "tessera/tensor.hpp"

namespace tessera {

struct Context;

/// Which half of a backward pass runs: input gradients, weight gradients, or both.
enum class Half : u8 { both, input, weight };

/// The gradients around one recorded operation, handed to its closures.
class TESSERA_API Gradients {
 public:
  virtual ~Gradients();
  /// What the pass runs: `both` when the weight half follows the input half closely, so that the
  /// input half may start a collective for it.
  virtual Half half() const = 0;
  /// Gradient of output i; undefined when nothing downstream needs it (then it is zero). Waits for
  /// a pending collective first.
  virtual Tensor output(int i) = 0;
  /// The same, giving up the tape's own handle: it may be written in place when it is then the sole
  /// owner. Only for operations without a weight half.
  virtual Tensor take(int i) = 0;
  /// Does input i need a gradient?
  virtual bool wants(int i) const = 0;
  /// Takes over what others have contributed to the gradient of input i so far, for an operation
  /// that adds its own in the same pass and contributes the sum; undefined when there is nothing.
  /// Waits for a pending collective first.
  virtual Tensor take_sum(int i) = 0;
  /// Contributes to the gradient of input i (summed with other contributions). When the gradient
  /// is still being communicated, pass its Work: it is waited for where it is next read.
  virtual void input(int i, Tensor gradient, Work pending = {}) = 0;
};

/// A callable `void(Context&, Gradients&)` that runs in the backward pass, or none. The input half
/// contributes input gradients; the weight half accumulates into Parameter::grad. Only an argument
/// of Tape::record, which moves the callable (or copies one that has a name) into the frame's own
/// memory. Whatever it captured is released after it ran.
class BackwardFn {
 public:
  BackwardFn() = default;
  template <class F>
  requires std::invocable < std::decay_t<F>
  &, Context&,
      Gradients& >
          BackwardFn(F&& function)  // NOLINT: implicit, so that lambdas are passed as they are
      : from_(const_cast<void*>(static_cast<const void*>(&function))),
  type_(&kType<F&&>) {
    static_assert(alignof(std::decay_t<F>) <= alignof(std::max_align_t));
  }

 private:
  friend class Tape;
  struct Type {
    std::size_t bytes;
    void (*make)(void* at, void* from);
    void (*call)(void* at, Context&, Gradients&);
    void (*destroy)(void* at);
  };
  template <class Reference, class F = std::decay_t<Reference>>
  static constexpr Type kType = {
      sizeof(F),
      [](void* at, void* from) {
        new (at) F(static_cast<Reference>(*static_cast<std::remove_reference_t<Reference>*>(from)));
      },
      [](void* at, Context& cx, Gradients& gradients) { (*static_cast<F*>(at))(cx, gradients); },
      [](void* at) { static_cast<F*>(at)->~F(); }};

  void* from_ = nullptr;
  const Type* type_ = nullptr;
};

/// The mark of a value that is on no frame yet and whose gradient is wanted.
inline constexpr Var kNeedsGradient{~0U, 0};

/// Explicit reverse-mode record of one rank, cut into frames, one per (microbatch, phase). Between
/// begin and end, operations record into the current frame. Frames nest (recompute). What enters a
/// frame and what leaves it is known by position in the caller's lists (slots of a bundle,
/// arguments of a function), and gradients cross its edge by the same positions:
///
///     std::vector<Tensor> x = {input.with_var(kNeedsGradient)};
///     const Tape::FrameId frame = tape.begin(x);
///     const std::vector<Tensor> y = {ops::gelu(cx, x[0])};
///     tape.end(y);
///     std::vector<Tape::Gradient> gradients = Tape::gradients({dy});
///     tape.backward(cx, frame, Half::both, gradients);  // gradients[0] is dx now
///
/// Used on the rank's thread. A frame takes over the memory of one that was released, so a steady
/// state asks the system for none.
class TESSERA_API Tape {
 public:
  using FrameId = u32;
  Tape();
  ~Tape();

  /// Begins a frame. Each of the values that has a place on another frame, or the mark
  /// kNeedsGradient, becomes a leaf of this one: it will have a gradient.
  FrameId begin(std::span<Tensor> values = {});
  /// Ends the current frame. Results that depend on a leaf or a parameter will take a gradient.
  void end(std::span<const Tensor> results = {});
  bool recording() const;
  /// True when `value` belongs to the current frame, so an operation on it must be recorded. A
  /// value of another frame is an Error: what crosses a phase boundary crosses in the bundle.
  bool tracks(const Tensor& value) const;
  /// Records an operation and marks `outputs` as its results. Either half may be none; an operation
  /// with neither tracked inputs nor a weight half is not recorded. `name` outlives the frame, and
  /// so does the component that records: an error of either half names it.
  void record(std::string_view name,
              std::span<const Tensor> inputs,
              std::span<Tensor* const> outputs,
              BackwardFn input_half,
              BackwardFn weight_half = {});
  /// Adds a root of the current frame: d(total loss)/d(scalar) = the loss scale.
  void root(const Tensor& scalar);

  /// A gradient at the edge of a frame. Undefined: zero. Still communicated while `pending` is: it
  /// is waited for where it is read.
  struct Gradient {
    Tensor tensor;
    Work pending = {};
  };
  /// Gradients that are not communicated.
  static std::vector<Gradient> gradients(const std::vector<Tensor>& tensors);
  /// Runs one half of a frame's backward pass, or both. `gradients` are by position: those of the
  /// results before the call, those of the values after it. Half::weight follows Half::input, which
  /// keeps what it reads, and leaves `gradients` alone. The frame is released when no half is left.
  void backward(Context& cx, FrameId frame, Half half, std::vector<Gradient>& gradients);
  /// Waits on the stream for those of `gradients` that backward(), given the same, would wait for
  /// before it launches anything: so an observer can tell wait from work.
  void arrive(Context& cx, FrameId frame, std::vector<Gradient>& gradients);
  /// Call after Half::input: waits on the stream for what the weight half reads and is still
  /// communicated. A graph of the input half ends with it, because a graph waits for what it
  /// starts.
  void wait(Context& cx, FrameId frame);
  /// Frees a frame and everything it holds.
  void release(FrameId frame);
  /// Frames not yet released: live activations.
  int live_frames() const;

 private:
  struct Frame;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera
