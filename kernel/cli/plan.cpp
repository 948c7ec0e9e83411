#include <fmt/format.h>

#include <cstdio>
#include <fstream>

#include "kernel/cli/commands.hpp"
#include "kernel/cli/show.hpp"
#include "kernel/config/config.hpp"
#include "kernel/launch/environment.hpp"
#include "kernel/launch/open_plugins.hpp"
#include "kernel/planner/advice.hpp"
#include "kernel/planner/optimizer_ranges.hpp"
#include "kernel/planner/predicted_trace.hpp"
#include "kernel/planner/report.hpp"
#include "kernel/schedule/draw.hpp"
#include "kernel/system/limits.hpp"
#include "kernel/train/setup/epochs.hpp"
#include "kernel/train/setup/run_setup.hpp"
#include "tessera/error.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

namespace {

constexpr int kDoesNotFit = 4;

// Predicts what the options say, and the same with further settings.
class Planner {
 public:
  explicit Planner(const PlanOptions& options)
      : options_(options),
        plugins_(open_plugins(Config::load(options.files, options.sets).plugin_path())),
        config_(resolved(options.sets)) {
    require_threads(rank_threads(config_.run.device, world(config_)));
    hardware_ = table(config_.run.run.hardware);
  }

  const Resolved& config() const { return config_; }

  Prediction predict(const std::vector<std::string>& further = {}) const {
    std::vector<std::string> sets = options_.sets;
    sets.insert(sets.end(), further.begin(), further.end());
    const Resolved config = resolved(sets);
    return tessera::predict(arguments(config));
  }

  std::vector<OptimizerRanges> ranges() const { return optimizer_ranges(arguments(config_)); }

 private:
  PlanArguments arguments(const Resolved& config) const {
    PlanArguments arguments;
    arguments.config = &config;
    arguments.plugins = plugins_.get();
    arguments.world = world(config);
    arguments.hardware = hardware_;
    arguments.imbalance = options_.imbalance;
    arguments.threads = rank_threads(config.run.device, arguments.world);
    arguments.workers = static_cast<int>(auto_threads(1));
    return arguments;
  }
  // --hardware wins over what the configuration names.
  Hardware table(const std::string& of_run) const {
    if (!options_.hardware.empty()) return Hardware::load(options_.hardware);
    if (of_run.empty()) return {};
    try {
      return Hardware::load(of_run);
    } catch (const ConfigError& error) {
      fail_config("[run] hardware: {}", error.what());
    }
  }
  i64 world(const Resolved& config) const {
    return options_.world > 0 ? options_.world : world_size(config.run);
  }
  Resolved resolved(const std::vector<std::string>& sets) const {
    return resolve(load_run(options_.files, sets, *plugins_, UnknownEpochs::one_step), *plugins_);
  }

  const PlanOptions& options_;
  std::shared_ptr<PluginHost> plugins_;
  Resolved config_;
  Hardware hardware_;
};

// Nothing runs, so every error comes from the configuration.
template <class Body>
auto of_configuration(const Body& body) {
  try {
    return body();
  } catch (const Error& error) {
    throw ConfigError(error.what());
  }
}

}  // namespace

int run_plan(const PlanOptions& options) {
  const Planner planner = of_configuration([&] { return Planner(options); });
  for (const std::string& notice : planner.config().notices) show_error("{}\n", notice);
  if (options.optimizer_ranges) {
    const std::vector<OptimizerRanges> ranges = of_configuration([&] { return planner.ranges(); });
    show("{}", options.json ? optimizer_ranges_json(ranges) + "\n" : optimizer_ranges_text(ranges));
    return 0;
  }
  const Prediction prediction = of_configuration([&] { return planner.predict(); });
  const Advice advice = of_configuration([&] {
    return advise(
        prediction, planner.config().run, static_cast<i64>(options.memory), [&](const auto& sets) {
          return planner.predict(sets);
        });
  });
  if (!options.svg.empty()) {
    const int chunks = prediction.classes.front().plan.shape.chunks;
    write_output_file(options.svg,
                      draw_svg(prediction.timeline, chunks, prediction.run, kPredictedTimes));
  }
  if (!options.trace.empty()) write_output_file(options.trace, predicted_trace(prediction));
  if (options.json) {
    show_exact(report_json(prediction, &advice) + "\n");
  } else {
    show("{}{}", report_text(prediction), advice_text(prediction, advice));
  }
  return advice.fit.capacity > 0 && !advice.fit.fits() ? kDoesNotFit : 0;
}

void write_output_file(const std::string& file, std::string_view text) {
  std::ofstream out(file, std::ios::binary);
  out << text;
  out.close();
  require(out.good(), "{} cannot be written", written_path(file));
}

}  // namespace tessera
