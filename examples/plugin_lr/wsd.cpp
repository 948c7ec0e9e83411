// Learning rates that rise, stay at their peak, and go down at the end (Hu et al. 2024, "MiniCPM").
#include <algorithm>
#include <tessera/optimizer.hpp>
#include <tessera/plugin.hpp>

namespace {

using namespace tessera;

class Wsd final : public LrSchedule {
 public:
  struct Config {
    double peak = 1e-3, decay = 0.2;
    i64 warmup_steps = 0;
    static void describe(Schema<Config>& s) {
      s.field("peak", &Config::peak, "rate of the plateau").above(0);
      s.field("warmup_steps", &Config::warmup_steps, "updates of the rise")
          .at_least(0)
          .at_most(kMostSteps);
      s.field("decay", &Config::decay, "part of the run that goes down").at_least(0).at_most(1);
    }
  };

  Wsd(const Config& config, LrArguments& run)
      : peak_(config.peak),
        rise_(static_cast<double>(config.warmup_steps)),
        fall_(config.decay * static_cast<double>(run.steps)),
        end_(static_cast<double>(run.steps + 1)) {}

  double do_rate(i64 step) const override {  // of update 1, 2, …
    const auto at = static_cast<double>(step);
    return peak_ * std::min({1.0, at / (rise_ + 1), (end_ - at) / (fall_ + 1)});
  }

 private:
  double peak_, rise_, fall_, end_;
};

}  // namespace

TESSERA_PLUGIN(wsd, "0.1.0", "Warm-up, plateau, decay") {
  registrar.add<LrSchedule, Wsd>("wsd", "rises, stays at peak, and goes down at the end");
}
