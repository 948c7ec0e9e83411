#pragma once
#include <vector>

#include "kernel/train/run/loss_watch.hpp"
#include "kernel/train/run/training.hpp"

namespace tessera {

/// Tells which samples made a step bad: `bad-steps.jsonl` in the run's folder gets a line with the
/// ordinals of its batch, what the dataset says of each, and each sample's loss with the parameters
/// as they are now.
class BadSamples {
 public:
  explicit BadSamples(const Training& training) : training_(training) {}
  /// To be told at the next call of tell(): the parameters may be in use now.
  void add(const BadStep& bad) { waiting_.push_back(bad); }
  /// All ranks call it, between steps.
  void tell();

 private:
  std::vector<double> losses(i64 first, i64 count) const;

  const Training& training_;
  std::vector<BadStep> waiting_;
};

}  // namespace tessera
