#pragma once
#include <vector>

#include "of_file.hpp"

namespace tessera {

/// Keys of evaluations that score the long texts of a file.
struct WindowKeys : FileKeys {
  Auto<i64> window, stride;
};
template <class C>
void describe_windows(Schema<C>& s) {
  s.field("window",
          &C::window,
          "tokens that a window has as inputs; \"auto\": as many as the model has positions")
      .at_least(1)
      .at_most(kMostPositions);
  s.field("stride",
          &C::stride,
          "tokens from a window to the next; all but the first score their last `stride` tokens; "
          "\"auto\": those of a window, so that none overlap")
      .at_least(1)
      .at_most(kMostPositions)
      .megatron("--overlapping-eval");
}

/// Which windows: positions of each, and from one to the next.
struct Windows {
  /// Throws ConfigError where the model has fewer positions than `window`, or windows would leave
  /// out tokens.
  Windows(const WindowKeys& keys, i64 most_tokens);
  i64 window, stride;
};

/// An evaluation of the long texts of one file.
class OfWindows : public OfFile {
 protected:
  OfWindows(const WindowKeys& keys, const EvaluationArguments& arguments)
      : OfFile(keys, arguments), windows_(keys, arguments.most_tokens) {}
  const Windows& windows() const { return windows_; }

 private:
  Windows windows_;
};

/// Sums of log probabilities over windows, which are scored when there are many.
class WindowSum {
 public:
  WindowSum(TextScorer& scorer, const Windows& windows) : scorer_(scorer), of_(windows) {}
  /// Each token but the first once.
  void add(const std::vector<i32>& tokens);
  i64 windows() const { return windows_; }
  /// Tokens that were scored.
  i64 tokens() const { return tokens_; }
  /// - (sum of their log probabilities), of all that was added.
  double nats();

 private:
  void score();

  TextScorer& scorer_;
  Windows of_;
  std::vector<ScoredText> waiting_;
  i64 windows_ = 0, tokens_ = 0;
  double nats_ = 0;
};

}  // namespace tessera
