#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "kernel/planner/meter.hpp"
#include "kernel/planner/repetition.hpp"
#include "tessera/base/collective.hpp"
#include "tessera/operation.hpp"

namespace tessera {

/// Watches the steps of a dry rank for whether a stretch of its plan comes again in the same state:
/// at the same addresses, so that any number of further ones takes no other memory. The allocator
/// is deterministic; what is live at the end of a stretch was written in it, or stays all the time.
class SteadyWatch final : public ActionObserver {
 public:
  explicit SteadyWatch(StepMeter& meter) : meter_(meter) {}

  void begin_step() { steps_.emplace_back(); }
  /// Is the action that runs one of the stretch's last round?
  bool in_last(const Repetition& stretch) const {
    const std::size_t begun = steps_.empty() ? 0 : steps_.back().size();
    return begun > stretch.end - stretch.period && begun <= stretch.end;
  }
  void launched(const Kernel& kernel, const void* args);
  void started(const Collective& collective);

  /// The fewest stretches after which all steps were at the same addresses again, twice in a row up
  /// to the stretch's end. Nothing: it has not been seen.
  std::optional<std::size_t> cycle(const Repetition& stretch) const;

  void before(const Plan& plan, const PlanAction& action) override {
    meter_.before(plan, action);
    if (!steps_.empty()) steps_.back().push_back(0);
  }
  void ready(const Plan& plan, const PlanAction& action) override { meter_.ready(plan, action); }

 private:
  using Addresses = std::vector<std::uint64_t>;  // a hash of those that each action writes
  void writes(const TensorArg& tensor);

  StepMeter& meter_;
  std::vector<Addresses> steps_;
};

}  // namespace tessera
