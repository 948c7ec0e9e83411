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
  if (incremental()) {
    cache_ = std::make_unique<SequenceCache>(model_.parts().cache_slots(), setup_.batch.sequence);
  }
}

bool Generator::incremental() const {
  return std::ranges::all_of(model_.chunks(), [](const Chunk& chunk) {
    return std::ranges::all_of(chunk.phases(), &Phase::incremental);
  });
}

std::vector<float> Generator::logits(const std::vector<i32>& tokens) {
  require(!tokens.empty(), "there is nothing to continue");
  const i64 length = setup_.batch.sequence, half = std::max<i64>(1, length / 2);
  const i64 beyond = std::max<i64>(0, static_cast<i64>(tokens.size()) - length);
  const std::span<const i32> window = std::span(tokens).subspan((beyond + half - 1) / half * half);
  if (cache_ == nullptr) return evaluation_.logits(window, nullptr);
  // The last token runs in any case: its logits are not kept.
  const auto known = std::ranges::mismatch(kept_, window.first(window.size() - 1)).in1;
  if (known != kept_.end() || kept_.empty()) {
    cache_->restart();
    kept_.clear();
  }
  std::vector<float> logits = evaluation_.logits(window.subspan(kept_.size()), cache_.get());
  kept_.assign(window.begin(), window.end());
  return logits;
}

i32 Generator::next(const std::vector<i32>& tokens, const Sampling& sampling) {
  const u64 key = random_key(sampling.seed, "generate");
  std::vector<float> logits = this->logits(tokens);
  const auto known = static_cast<std::size_t>(tokenizer().vocabulary());
  logits.resize(std::min(logits.size(), known));
  return sample_token(logits, sampling.temperature, random_uniform(key, tokens.size()));
}

}  // namespace tessera
