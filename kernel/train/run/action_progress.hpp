#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernel/train/execution/action_observer.hpp"
#include "kernel/train/setup/run_setup.hpp"
#include "sdk/src/shared/progress.hpp"
#include "tessera/device/doing.hpp"

namespace tessera {

/// Writes each action that the executor begins to the rank's record, and says for crash reports
/// what the rank is doing.
class ActionProgress final : public ActionObserver {
 public:
  /// `progress` outlives it.
  ActionProgress(const RunSetup& setup, Progress& progress);
  void before(const Plan& plan, const PlanAction& action) override;
  void after(const Plan&, const PlanAction&) override { doing_.reset(); }
  void failed(const Plan&, const PlanAction&) override { doing_.reset(); }
  void replaying(i64 step) override;
  void replayed() override { doing_.reset(); }

 private:
  Progress& progress_;
  std::vector<std::string> layers_;
  std::string step_;  // that is replayed
  std::optional<Doing> doing_;
};

}  // namespace tessera
