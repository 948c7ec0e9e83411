#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/identified.hpp"
#include "tessera/context.hpp"
#include "tessera/device/host_block.hpp"
#include "tessera/device/stream.hpp"

namespace tessera {

class BuildContext;

/// A place in the bundle for a device tensor; made by BuildContext::slot, resolved once.
struct Slot {
  int index = -1;
};
/// A place in the bundle for integers that the host reads back from the device (Bundle::read_back).
struct HostSlot {
  int index = -1;
};
class HostBlocks;

/// What crosses phase boundaries, for one microbatch. Everything that a later phase reads is here;
/// phases keep no state of their own, because other microbatches are in flight.
class TESSERA_API Bundle {
 public:
  /// `blocks`: where read_back takes host memory, so that later bundles take it again; its own when
  /// empty.
  Bundle(int tensors, int host_vectors, std::shared_ptr<HostBlocks> blocks = {});
  /// Throws Error for a slot that BuildContext::slot did not make for this model chunk.
  Tensor& operator[](Slot slot) { return tensors_[position(slot.index, tensors_.size())]; }
  const Tensor& operator[](Slot slot) const {
    return tensors_[position(slot.index, tensors_.size())];
  }
  std::vector<Tensor>& tensors() { return tensors_; }
  const std::vector<Tensor>& tensors() const { return tensors_; }

  /// Starts to copy dense `integers` (i64) to the host, after what cx.stream holds, and returns.
  /// A later phase that names the slot in Phase::reads finds them in (*this)[slot]. In a phase that
  /// runs again for the backward pass (Context::recomputing) nothing is read: the slot keeps what
  /// the first run brought. On a `meta` device the host reads what Device::assume declared.
  void read_back(Context& cx, HostSlot slot, const Tensor& integers);
  /// Blocks the host until the slot's integers are here; Error where nothing was read back. For
  /// whatever runs phases, right before one that reads the slot.
  void await(Device& device, HostSlot slot);
  /// For graphs: takes host memory for what `warmed` has read back, so that read_back takes none
  /// while it is captured on this bundle.
  void reserve_read_back(Device& device, const Bundle& warmed);
  /// Call after the replay of a graph that was captured on `captured`: the integers that this graph
  /// reads back arrive here, with what `stream` holds now. A bundle is replayed once they were
  /// awaited.
  void replayed(Stream& stream, const Bundle& captured);
  /// Call in a phase that leaves results of a collective in slots before they are there: whatever
  /// runs phases waits before the next one that runs on this bundle, and may run phases of other
  /// bundles in between.
  void leave_under_way(Work work) { under_way_.list.push_back(std::move(work)); }
  /// Later work of `stream` sees what was left under way. run_phase does so before each phase;
  /// whatever reads slots after the last phase does so first.
  void arrive(Stream& stream);
  /// What was read back and awaited; empty before.
  const std::vector<i64>& operator[](HostSlot slot) const {
    return host_[position(slot.index, host_.size())].values;
  }

 private:
  static std::size_t position(int index, std::size_t slots) {
    const auto at = static_cast<std::size_t>(index);  // a default slot is -1: beyond any end
    if (at >= slots) [[unlikely]] {
      fail_slot(index, slots);
    }
    return at;
  }
  [[noreturn]] static void fail_slot(int index, std::size_t slots);

  struct HostValues {
    std::vector<i64> values;
    std::shared_ptr<HostBlock> under_way;  // being copied, until it is awaited
    Event arrived;
  };
  struct UnderWay {  // a copy of a bundle waits for the same
    UnderWay() = default;
    UnderWay(const UnderWay& other);
    UnderWay& operator=(const UnderWay& other);
    UnderWay(UnderWay&&) noexcept = default;
    UnderWay& operator=(UnderWay&&) noexcept = default;
    ~UnderWay() = default;
    std::vector<Work> list;
  };
  std::vector<Tensor> tensors_;
  std::vector<HostValues> host_;
  UnderWay under_way_;
  std::shared_ptr<HostBlocks> blocks_;
};

/// Host memory that comes back when it is used no more: a steady state asks the system for none.
/// Used on the rank's thread.
class TESSERA_API HostBlocks : public std::enable_shared_from_this<HostBlocks> {
 public:
  /// A block of that size, its own until the last handle goes.
  std::shared_ptr<HostBlock> take(Device& device, i64 bytes);

 private:
  std::vector<HostBlock> free_;
};

enum class Shapes : u8 {
  fixed,    ///< the same shapes every time: may be captured
  dynamic,  ///< shapes depend on data: never runs during a capture
};

/// One step of a layer's forward. `scope` names it for graph policies and recompute: "attn", "mlp",
/// "moe_router", "moe_preprocess", "moe_dispatch", "moe_experts", "moe_combine", "shared_experts",
/// "embedding", "head". `run` is const in effect: all state is in context and bundle.
struct Phase {
  std::string_view scope;
  Shapes shapes = Shapes::fixed;
  /// Is `run` right for any number of rows that follow those in cx.cache? It is where no row looks
  /// at another, and where earlier rows are kept there. Generation runs the whole sequence again
  /// for each token if any phase of the model says no.
  bool incremental = false;
  std::function<void(Context&, Bundle&)> run;
  /// Host slots that `run` reads: the host waits for them right before it, and nowhere else. Such a
  /// phase is not captured.
  std::vector<HostSlot> reads = {};
  /// It is left out outside of training, with what it reads: losses that nothing else needs.
  bool training_only = false;
  /// It starts an exchange, forward and backward, that the phase after it waits for. Where a
  /// schedule overlaps forward and backward passes, phases of another microbatch run in between.
  bool starts_exchange = false;
  /// Why what `run` does for a row depends on later rows of its sequence, for a warning. Empty: it
  /// does not.
  std::string_view looks_ahead = {};
  /// Set by Layer::phases(): the layer that it belongs to, for errors. nullptr: nobody knows.
  std::shared_ptr<const Identity> owner = {};

  bool skipped(const Context& cx) const { return training_only && !cx.training(); }
};

/// Waits for what the phase reads and for what is under way, then runs it, unless it is skipped.
/// Whatever runs phases calls this.
TESSERA_API void run_phase(const Phase& phase, Context& cx, Bundle& bundle);

/// A part of a model with parameters and phases. Plugin kind "layer". Slots, parameters and
/// children are made in the constructor, from the BuildContext; phases() is called once, after it.
class TESSERA_API Layer : public Identified {
 public:
  static constexpr std::string_view kKind = "layer";
  static constexpr bool kStructural = true;
  using Arguments = BuildContext;

  ~Layer() override;
  std::vector<Phase> phases();
  /// Called after the optimizer's update, on every rank and after every step, skipped ones too
  /// (Context::skipped): a layer updates its buffers from what it gathered during the step. Only
  /// launches: the host reads nothing.
  void end_step(Context&);

 private:
  virtual std::vector<Phase> do_phases() = 0;
  virtual void do_end_step(Context&) {}
};

/// A layer of one phase that others call inside theirs: linear, norm. Plugin kind "module".
class TESSERA_API Module : public Identified {
 public:
  static constexpr std::string_view kKind = "module";
  static constexpr bool kStructural = true;
  using Arguments = BuildContext;

  ~Module() override;
  /// x and the result are [n, features] unless the module says otherwise. A row of the result
  /// depends on the same row of x only, so that a layer may pass any rows.
  Tensor operator()(Context& cx, const Tensor& x) const;

 private:
  virtual Tensor do_forward(Context& cx, const Tensor& x) const = 0;
};

}  // namespace tessera
