#pragma once
#include <array>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "kernel/schedule/trace.hpp"
#include "kernel/train/execution/action_observer.hpp"
#include "tessera/device/device.hpp"
#include "tessera/mesh.hpp"

namespace tessera {

/// Records when the actions of single steps ran on this rank's device, for observers that ask for
/// it; of a step that is replayed as a whole, when that was. Between these steps it only passes on
/// to the next observer. What is recorded is the compute stream's time; what runs on others is seen
/// where it is posted and where it is waited for.
class Recorder final : public ActionObserver {
 public:
  /// Hosts that keep it by NTP agree to less than a millisecond.
  using WallClock = std::chrono::system_clock;

  /// All outlive it.
  Recorder(Device& device, const Mesh& mesh, ActionObserver& next);

  /// Times are seconds since this moment, the same on all ranks and not long before the first step:
  /// seconds since 1970 leave a `double` no more than a quarter of a microsecond.
  void count_from(WallClock::time_point moment) { zero_ = moment; }
  /// From now on actions are recorded, as those of this step.
  void begin(i64 step);
  /// Waits until the device has done the step, and records no more.
  TracedStep end();
  /// Its events (trace_events). Takes longer than a small step, so it is for later.
  std::string events(const Plan& plan,
                     const TracedStep& recorded,
                     const std::vector<TracedReadback>& readbacks) const;

  void before(const Plan& plan, const PlanAction& action) override;
  void ready(const Plan& plan, const PlanAction& action) override;
  void after(const Plan& plan, const PlanAction& action) override;
  void failed(const Plan& plan, const PlanAction& action) override;
  void replaying(i64 step) override;
  void replayed() override;

 private:
  struct Marks {
    Event start, end;
  };
  Event mark();

  Device& device_;
  const Mesh& mesh_;
  ActionObserver& next_;
  std::optional<i64> step_;  // that is recorded
  WallClock::time_point zero_;
  double origin_ = 0;  // seconds since zero_, when origin_mark_ was reached
  Event origin_mark_;
  Event first_;               // before the first action: each other begins where one ends
  std::vector<Marks> marks_;  // by action
  std::vector<std::array<i64, kCategories>> memory_;
  Marks whole_;  // of a replay
};

}  // namespace tessera
