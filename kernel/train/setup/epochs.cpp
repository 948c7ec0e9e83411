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

bool is_zero(const std::optional<Value>& value) {
  if (!value) return false;
  const auto* real = std::get_if<double>(&value->data);
  const auto* whole = std::get_if<i64>(&value->data);
  return (real != nullptr && *real == 0) || (whole != nullptr && *whole == 0);
}

i64 training_samples(const Resolved& config, const PluginHost& plugins) {
  HostMaker maker(plugins, config.tree);
  TokenizerArguments none;
  const auto tokenizer = maker.make(config.run.tokenizer, none);
  DatasetArguments arguments{.sequence_length = config.run.batch.sequence_length,
                             .seed = config.run.run.seed,
                             .tokenizer = tokenizer,
                             .training_samples = 0,
                             .keep_in = ""};
  return maker.make(config.run.data, arguments)->size(SampleSet::train);
}

}  // namespace

Config load_run(const std::vector<std::string>& files,
                const std::vector<std::string>& sets,
                const PluginHost& plugins,
                UnknownEpochs unknown) {
  Config config = Config::load(files, sets);
  const Entry* epochs = config.tree().find("run.epochs");
  const Entry* steps = config.tree().find("run.steps");
  if (epochs == nullptr || is_zero(epochs->value)) return config;
  if (steps != nullptr && steps->at.layer >= epochs->at.layer) return config;
  Config one = Config::load(files, with_steps(sets, 1));
  const Resolved first = resolve(one, plugins);
  i64 samples = 0;
  try {
    samples = training_samples(first, plugins);
  } catch (const Error& error) {
    if (unknown == UnknownEpochs::error) throw;
    log_warning("{}: [run] epochs: their number of steps is not known, and 1 stands for it: {}",
                epochs->at.text(),
                error.what());
    return one;
  }
  const i64 batch = first.run.batch.global;
  const double count =
      std::ceil(first.run.run.epochs * static_cast<double>(samples) / static_cast<double>(batch));
  if (count < 1 || count > static_cast<double>(kMostSteps)) {
    fail_config("{}: [run] epochs = {}: {} samples, {} a step, are {} steps; 1 to {}",
                epochs->at.text(),
                first.run.run.epochs,
                samples,
                batch,
                count,
                kMostSteps);
  }
  return Config::load(files, with_steps(sets, static_cast<i64>(count)));
}

}  // namespace tessera
