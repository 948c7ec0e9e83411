#pragma once
#include <string>
#include <string_view>

#include "tessera/observer.hpp"

namespace tessera {

/// Tells on standard output how the run goes: lines for people, or one JSON object a line for
/// programs when the run says so.
class Console final : public Observer {
 public:
  struct Config {
    i64 every_steps = 10;
    static void describe(Schema<Config>& s);
  };
  Console(const Config& config, ObserverArguments&) : config_(config) {}

  void do_on(const RunStart& start) override;
  void do_on(const StepEnd& step) override;
  void do_on(const MemoryUse& use) override;
  void do_on(const Validation& validation) override;
  void do_on(const Saved& saved) override;
  void do_on(const SampleText& sample) override;
  void do_on(const Failure& failure) override;
  void do_on(const RunEnd& end) override;

 private:
  void print_start() const;
  void print_data() const;
  void print_step(const StepEnd& step);
  /// Their mean; the step's own where none has a loss.
  double mean_loss(const StepEnd& step) const;
  std::string label(i64 step) const;

  Config config_;
  RunStart run_;
  // Sums over the steps since the last printed one; losses: of those that have one.
  double seconds_ = 0, losses_ = 0;
  i64 steps_ = 0, with_loss_ = 0;
};

}  // namespace tessera
