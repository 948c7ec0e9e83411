#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "tessera/comm.hpp"
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
  /// Contributes to the gradient of input i (summed with other contributions). When the gradient
  /// is still being communicated, pass its Work: it is waited for where it is next read.
  virtual void input(int i, Tensor gradient, Work pending = {}) = 0;
};

/// Runs in the backward pass. The input half contributes input gradients; the weight half
/// accumulates into Parameter::grad. Whatever a closure captured is released after it ran.
using BackwardFn = std::function<void(Context&, Gradients&)>;

/// Explicit reverse-mode record of one rank, cut into frames, one per (microbatch, phase). Between
/// begin and end, operations record into the current frame. Frames nest (recompute). Used on the
/// rank's thread.
class TESSERA_API Tape {
 public:
  using FrameId = u32;
  Tape();
  ~Tape();

  FrameId begin();
  void end();
  bool recording() const;
  /// Makes a boundary value of the current frame: gradients will be available for it.
  Tensor leaf(const Tensor& value);
  /// True when `value` belongs to the current frame, so an operation on it must be recorded. A
  /// value of another frame is an Error: what crosses a phase boundary crosses in the bundle.
  bool tracks(const Tensor& value) const;
  /// Records an operation and marks `outputs` as its results. Either closure may be empty; an
  /// operation with neither tracked inputs nor a weight half is not recorded.
  void record(std::string_view name,
              std::span<const Tensor> inputs,
              std::span<Tensor* const> outputs,
              BackwardFn input_half,
              BackwardFn weight_half = {});
  /// Adds a root of the current frame: d(total loss)/d(scalar) = the loss scale.
  void root(const Tensor& scalar);

  struct Seed {
    Var value;        ///< a tracked output of the frame
    Tensor gradient;  ///< undefined entries are skipped
    Work pending = {};
  };
  struct Result {
    Tensor gradient;  ///< undefined when no gradient reached the leaf
    Work pending = {};
  };
  /// Runs one half of a frame. Takes the Works of `seeds`. `into` are leaves; the result has one
  /// entry each (Half::weight returns none). With Half::input the frame keeps what its weight half
  /// reads until that ran.
  std::vector<Result> backward(Context& cx,
                               FrameId frame,
                               Half half,
                               std::span<Seed> seeds,
                               std::span<const Var> into);
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
