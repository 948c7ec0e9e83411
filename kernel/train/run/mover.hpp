#pragma once
#include <fmt/format.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernel/train/execution/action_observer.hpp"
#include "kernel/train/setup/run_setup.hpp"
#include "tessera/doing.hpp"

namespace tessera {

/// Tells, action by action, that the rank moves on, and for crash reports what it is doing.
class Mover final : public ActionObserver {
 public:
  /// `moved` outlives it and may be empty.
  Mover(const RunSetup& setup, const std::function<void(std::string_view)>& moved);
  void before(const Plan& plan, const PlanAction& action) override;
  void after(const Plan&, const PlanAction&) override { doing_.reset(); }
  void failed(const Plan&, const PlanAction&) override { doing_.reset(); }
  void replaying(i64 step) override;
  void replayed() override { doing_.reset(); }

 private:
  void begin(std::string_view what, std::string_view of, int microbatch);
  const std::function<void(std::string_view)>& moved_;
  std::vector<std::string> layers_;
  std::string step_;  // that is replayed
  fmt::memory_buffer text_;
  std::optional<Doing> doing_;
};

}  // namespace tessera
