#pragma once
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "kernel/train/data/step_inputs.hpp"
#include "kernel/train/execution/executor.hpp"
#include "kernel/train/execution/step_losses.hpp"
#include "kernel/train/setup/placed_model.hpp"
#include "tessera/base/sequence_cache.hpp"

namespace tessera {

/// Forward passes of a placed model that record nothing: validation, and logits for generation.
/// Plans are made once for each number of microbatches.
class Evaluation {
 public:
  /// The model outlives it.
  explicit Evaluation(PlacedModel& model);

  /// Mean loss over the first `samples` validation samples, the same on every rank, and what is
  /// known with it: its terms, where it has several, and metrics of a validation. All ranks call
  /// it.
  StepLosses::Row validate(i64 samples);
  /// A cache for `logits` of that many sequences; none where some phase needs whole sequences.
  std::unique_ptr<SequenceCache> make_cache(i64 sequences) const;
  /// Runs the tokens of one sample without targets and returns the logits of the last one over the
  /// unpadded vocabulary, the same on every rank. All ranks call it. The sample is in every place
  /// of a microbatch, padded to the sequence length, which changes nothing (Context::seen). For
  /// models that neither pipeline nor context parallelism cuts.
  std::vector<float> logits(std::span<const i32> tokens);
  /// The same of each sequence of a run over the cache: the tokens, [sequences · rows], follow
  /// those that it holds and are kept there too.
  std::vector<std::vector<float>> logits(std::span<const i32> tokens,
                                         SequenceCache& cache,
                                         const SequenceCache::Run& run);
  /// Runs tokens of one sequence that follow those that the cache holds, all but the last, and
  /// keeps them there. Returns what the main loss knows of each row, whose target is the token
  /// after it: see RowSums. The same on every rank.
  std::vector<double> row_sums(std::span<const i32> tokens, SequenceCache& cache, i64 sequence);
  /// Puts one sequence of a cache in the place of another.
  void move(SequenceCache& cache, i64 from, i64 to);

 private:
  bool of_validation(const std::string& metric) const;
  /// One forward pass over rows, and where the logits that are wanted are. Without targets there is
  /// no loss.
  struct Rows {
    i64 first = 0, count = 1;
    std::vector<i64> ids = {}, rows = {}, positions = {}, targets = {};
  };
  Rows rows_of(std::span<const i32> tokens, Context& cx, SequenceCache& cache);
  void forward(Context& cx, const Rows& rows, const Executor::Done& done);
  std::vector<std::vector<float>> logits_of(Context& cx, const Rows& rows);
  Context generating();
  const Plan& plan(int microbatches);
  Tensor validation_weights(i64 samples, int microbatches) const;

  const Rank& rank_;
  PlacedModel& model_;
  const RunSetup& setup_;
  Executor executor_;
  std::map<int, Plan> plans_;  // by microbatches
  // The inputs of validation; made by the first call.
  std::unique_ptr<StepInputs> inputs_;
  std::unique_ptr<StepLosses> losses_;
};

}  // namespace tessera
