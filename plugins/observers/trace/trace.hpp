#pragma once
#include <vector>

#include "tessera/observer.hpp"
#include "tessera/schema.hpp"

namespace tessera {

/// `<out>/trace.json`: the steps `steps[0]` to `steps[1]` of all ranks, in Chrome's trace event
/// format.
class TraceWriter final : public Observer {
 public:
  struct Config {
    std::vector<i64> steps;
    static void describe(Schema<Config>& s) {
      s.field("steps", &Config::steps, "first and last step that are recorded, as [10, 12]")
          .range()
          .at_least(1)
          .at_most(kMostSteps)
          .required()
          .also("--profile-step-start", "is the first of {} here")
          .also("--profile-step-end", "is the second of {} here");
    }
  };
  TraceWriter(const Config& config, ObserverArguments& arguments)
      : arguments_(arguments), range_{config.steps[0], config.steps[1]} {}

  StepRange do_recorded_steps() const override { return range_; }
  void do_on(const Recorded& recorded) override;

 private:
  ObserverArguments arguments_;
  StepRange range_;
};

}  // namespace tessera
