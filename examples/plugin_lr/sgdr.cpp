// Learning rates that go down along half a cosine and start again at their peak, several times in a
// run (Loshchilov, Hutter 2017).
#include <cmath>
#include <numbers>
#include <tessera/optimizer.hpp>
#include <tessera/plugin.hpp>

namespace {

using namespace tessera;

class Sgdr final : public LrSchedule {
 public:
  struct Config {
    double peak = 1e-3;
    i64 cycles = 4;
    static void describe(Schema<Config>& s) {
      s.field("peak", &Config::peak, "rate at the start of each cycle").above(0);
      s.field("cycles", &Config::cycles, "equal parts of the run").at_least(1).at_most(kMostSteps);
    }
  };

  Sgdr(const Config& config, LrArguments& run)
      : peak_(config.peak),
        updates_(static_cast<double>(run.steps) / static_cast<double>(config.cycles)) {}

  double do_rate(i64 step) const override {  // of update 1, 2, …
    const double done = std::fmod(static_cast<double>(step - 1), updates_) / updates_;
    return peak_ * 0.5 * (std::cos(std::numbers::pi * done) + 1);
  }

 private:
  double peak_, updates_;  // of a cycle
};

}  // namespace

TESSERA_PLUGIN(sgdr, "0.1.0", "Cosine decay with warm restarts") {
  registrar.add<LrSchedule, Sgdr>("sgdr", "goes down along a cosine, again and again");
}
