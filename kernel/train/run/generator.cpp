#include "kernel/train/run/generator.hpp"

#include <algorithm>
#include <cmath>

#include "kernel/checkpoint/rank_load.hpp"
#include "kernel/model/initialize.hpp"
#include "kernel/train/run/training_state.hpp"
#include "tessera/error.hpp"
#include "tessera/random.hpp"

namespace tessera {

i32 sample_token(const std::vector<float>& logits, double temperature, double uniform) {
  require(!logits.empty(), "there are no logits to choose from");
  const bool finite = std::ranges::all_of(logits, [](float x) { return std::isfinite(x); });
  require(finite, "the model's output is not finite");
  const auto best = std::ranges::max_element(logits);
  if (temperature <= 0) return static_cast<i32>(best - logits.begin());
  std::vector<double> sums;  // of the weights up to each token
  double sum = 0;
  for (const float logit : logits) {
    sum += std::exp((static_cast<double>(logit) - *best) / temperature);
    sums.push_back(sum);
  }
  const auto chosen = std::ranges::upper_bound(sums, uniform * sum);
  return static_cast<i32>(std::min(chosen, sums.end() - 1) - sums.begin());
}

Generator::Generator(const Resolved& config,
                     const PluginHost& plugins,
                     const std::string& folder,
                     int threads)
    : setup_(derive_setup(config, plugins, 1, DataUse::none)),
      rank_(make_rank(rank_spec_of(setup_), {.threads = threads})),
      model_(rank_, setup_),
      evaluation_(rank_, model_, setup_) {
  const std::vector<CheckpointTensor> tensors = parameter_tensors(model_);
  const std::vector<HostBytes> contents =
      read_tensors(folder, read_index(folder), tensors, nullptr);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    rank_.device->write(tensors[i].tensor, contents[i].data());
  }
  for (const ModelParts::Entry& entry : model_.parts().parameters()) {
    Parameter& parameter = *entry.parameter;
    refresh_compute(parameter, main_part(model_.memory(), parameter), *rank_.device);
  }
}

std::vector<float> Generator::logits(const std::vector<i32>& tokens) {
  require(!tokens.empty(), "there is nothing to continue");
  const i64 length = setup_.batch.sequence;
  const i64 seen = std::min<i64>(length, static_cast<i64>(tokens.size()));
  const std::vector<i32> window(tokens.end() - seen, tokens.end());
  return evaluation_.logits(window, seen - 1);
}

i32 Generator::next(const std::vector<i32>& tokens, const Sampling& sampling) {
  const u64 key = random_key(sampling.seed, "generate");
  std::vector<float> logits = this->logits(tokens);
  const auto known = static_cast<std::size_t>(tokenizer().vocabulary());
  logits.resize(std::min(logits.size(), known));
  return sample_token(logits, sampling.temperature, random_uniform(key, tokens.size()));
}

}  // namespace tessera
