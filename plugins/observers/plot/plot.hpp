#pragma once
#include <string>

#include "history.hpp"
#include "tessera/observer.hpp"

namespace tessera {

/// `<out>/loss.svg`: the loss curves, drawn anew while the run goes on. A reader sees a whole
/// picture at any time, because a new one replaces the old in one step. One that cannot be written
/// is a warning.
class Plot final : public Observer {
 public:
  struct Config {
    i64 every_steps = 100;
    static void describe(Schema<Config>& s);
  };
  Plot(const Config& config, ObserverArguments& arguments)
      : config_(config), arguments_(arguments) {}

  void do_on(const RunStart& start) override;
  void do_on(const StepEnd& step) override;
  void do_on(const Validation& validation) override;
  void do_on(const Saved&) override { draw(); }
  void do_on(const RunEnd&) override { draw(); }

 private:
  void draw();

  Config config_;
  ObserverArguments arguments_;
  std::string title_;
  History training_, validation_;
  bool failed_ = false;  // the last drawing
};

}  // namespace tessera
