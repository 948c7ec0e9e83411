#pragma once
#include <map>
#include <tuple>
#include <vector>

#include "kernel/train/setup/outline.hpp"
#include "tessera/context.hpp"
#include "tessera/plan.hpp"
#include "tessera/process_group.hpp"

namespace tessera {

/// Activations and gradients on their way between chunks: of this rank directly, of others by the
/// plan's exchanges. A reader waits for what its own exchange receives, and for nothing else: a
/// neighbour that computes may take what was sent before much later. What was sent is kept until
/// the plan releases it, where its peer has taken it.
///
/// No deadlock follows from that: a rank waits only for messages that come, in the one order of all
/// messages (kernel/schedule), before whatever it has not posted yet.
class PipelineMail {
 public:
  PipelineMail(ProcessGroup& pipeline, std::vector<Boundary> boundaries);

  /// Boundary after stage `boundary`; one tensor for each slot of it.
  struct Key {
    bool forward = true;
    int microbatch = 0, boundary = 0;
    // NOLINTNEXTLINE(modernize-use-nullptr): the zero inside is the compiler's
    auto operator<=>(const Key&) const = default;
  };
  static Key key_of(const PlanAction::Message& message);
  const Boundary& boundary(int index) const {
    return boundaries_.at(static_cast<std::size_t>(index));
  }
  /// Sends take their tensors from here; take() waits for what an exchange of this rank receives.
  void put(const Key& key, std::vector<Tensor> tensors);
  std::vector<Tensor> take(const Key& key);

  /// Posts an exchange: what was put goes out, buffers are made for what comes in.
  void post(Context& cx, int action, const PlanAction& exchange);
  /// Later work of the context's stream sees what exchange `action` receives.
  void wait(Context& cx, int action);
  /// Waits until the peers have taken what exchange `action` sends, and gives its memory back.
  void release(Context& cx, int action);
  /// Waits for and releases everything, at the end of a plan.
  void finish(Context& cx);

 private:
  ProcessGroup& pipeline_;
  std::vector<Boundary> boundaries_;
  std::map<Key, std::vector<Tensor>> mail_;
  std::map<int, Work> posted_;  // by action of the plan
};

}  // namespace tessera
