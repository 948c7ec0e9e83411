#pragma once
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/identified.hpp"
#include "tessera/plan.hpp"

namespace tessera {

/// A run of consecutive phases of one chunk that becomes graphs: one for the forward pass, and one
/// for the backward pass, or one for each half of it where the plan splits them, and one more where
/// the phases are recomputed.
struct CapturedRange {
  int chunk = 0;
  int first_phase = 0, last_phase = 0;  ///< inclusive, within the chunk
};

struct GraphArguments {
  /// Throws ConfigError: key `key` of the policy's table, with where it was written, and why.
  std::function<void(std::string_view key, const std::string& why)> reject = {};
};

/// Chooses what is captured. Plugin kind "graph". The kernel allots graph slots, captures, checks
/// lifetimes and replays. A captured range must not contain a dynamic phase.
class TESSERA_API GraphPolicy : public Identified {
 public:
  static constexpr std::string_view kKind = "graph";
  using Arguments = GraphArguments;

  ~GraphPolicy() override;
  /// Asked once before a run, with the phases of all blocks of the model, whichever rank has them:
  /// rejects a configuration that they do not fit.
  void check(std::span<const PhaseInfo> blocks) const;
  /// Ranges in the order of their phases, none overlapping. `phases` and `plan` are those of one
  /// rank, and ranks of one stage have the same.
  std::vector<CapturedRange> choose(std::span<const PhaseInfo> phases, const Plan& plan) const;
  /// True: one graph holds a whole training step, with all microbatches, messages, sums of
  /// gradients and the update. No phase is dynamic then, and choose() is not asked.
  bool whole_step() const;

 private:
  virtual void do_check(std::span<const PhaseInfo> /*blocks*/) const {}
  virtual std::vector<CapturedRange> do_choose(std::span<const PhaseInfo> phases,
                                               const Plan& plan) const = 0;
  virtual bool do_whole_step() const { return false; }
};

}  // namespace tessera
