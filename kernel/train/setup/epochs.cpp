#include "kernel/train/setup/epochs.hpp"

#include <fmt/format.h>

#include <cmath>

#include "kernel/config/resolve.hpp"
#include "kernel/train/setup/host_maker.hpp"
#include "tessera/bounds.hpp"
#include "tessera/data.hpp"
#include "tessera/error.hpp"
#include "tessera/log.hpp"

namespace tessera {

namespace {

std::vector<std::string> with_steps(std::vector<std::string> sets, i64 steps) {
  sets.push_back(fmt::format("run.steps={}", steps));
  return sets;
}

i64 training_samples(const Resolved& config, const PluginHost& plugins) {
  HostMaker maker(plugins, config.tree);
  TokenizerArguments none;
  const auto tokenizer = maker.make(config.run.tokenizer, none);
  DatasetArguments arguments{.sequence_length = config.run.batch.sequence_length,
                             .seed = config.run.run.seed,
                             .tokenizer = tokenizer,
                             .training_samples = config.run.batch.global,
                             .keep_in = ""};
  return maker.make(config.run.data, arguments)->size(SampleSet::train);
}

}  // namespace

Config load_run(const std::vector<std::string>& files,
                const std::vector<std::string>& sets,
                const PluginHost& plugins) {
  Config config = Config::load(files, sets);
  const Entry* epochs = config.tree().find("run.epochs");
  if (epochs == nullptr) return config;
  if (const Entry* steps = config.tree().find("run.steps")) {
    if (steps->at.layer > epochs->at.layer) return config;
    if (steps->at.layer == epochs->at.layer) {
      fail_config("{}: [run] epochs: run.steps says how long the run is, too; remove one of them",
                  epochs->at.text());
    }
  }
  Config one = Config::load(files, with_steps(sets, 1));
  try {
    const Resolved first = resolve(one, plugins);
    const i64 samples = training_samples(first, plugins), batch = first.run.batch.global;
    const double steps =
        std::ceil(first.run.run.epochs * static_cast<double>(samples) / static_cast<double>(batch));
    if (steps > static_cast<double>(kMostSteps)) {
      fail_config("{} epochs of {} samples, {} a step, are more than {} steps",
                  first.run.run.epochs,
                  samples,
                  batch,
                  kMostSteps);
    }
    log_info("run.epochs = {}: {} samples, {} a step, are {} steps",
             first.run.run.epochs,
             samples,
             batch,
             static_cast<i64>(steps));
    return Config::load(files, with_steps(sets, static_cast<i64>(steps)));
  } catch (const Error& error) {
    log_warning("{}: [run] epochs: their number of steps is not known, and 1 stands for it: {}",
                epochs->at.text(),
                error.what());
    return one;
  }
}

}  // namespace tessera
