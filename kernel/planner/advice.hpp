#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kernel/planner/predict.hpp"

namespace tessera {

/// Whether the fullest device has room for its ranks or, where ranks compute in a host's memory,
/// the fullest host for all of its ranks.
struct Fit {
  i64 held = 0;      ///< Representative::held(), summed over the ranks that share the memory
  i64 capacity = 0;  ///< bytes; 0: nobody said
  i64 rank = 0;      ///< the first of the fullest device or host
  i64 ranks = 1;     ///< that share the memory
  bool host = false;
  bool fits() const { return held <= capacity; }
};
Fit fit_of(const Prediction& prediction, i64 capacity);

/// Another configuration and what it would be like.
struct Alternative {
  /// As --set takes it: "recompute.mode=full"; several with spaces between.
  std::string change = {};
  i64 held = 0;  ///< as in Fit
  bool fits = false;
  i64 microbatches = 1;
  double bubble = 0, step_seconds = 0;
  i64 global = 1;  ///< sequences of a step
};

struct Advice {
  Fit fit;
  std::vector<Alternative> smaller;  ///< what holds less, where the run does not fit
  bool long_bubble = false;
  /// The next microbatch count with a shorter bubble and no less speed.
  std::optional<Alternative> less_bubble;
  /// The run with schedule.overlap where it is without, and the other way round. None where the
  /// schedule has no such key, or where phases exchange nothing that a pair could hide.
  std::optional<Alternative> other_overlap;
};

/// A bubble longer than this share is worth a word.
inline constexpr double kLongBubble = 0.15;

/// Predicts the same run with further settings. Throws Error where they cannot be.
using Predict = std::function<Prediction(const std::vector<std::string>& sets)>;

/// `capacity`: bytes of a device or a host; 0: that of the hardware table. Predicts alternatives
/// where the run does not fit, its bubble is long or its passes may overlap; each takes as long as
/// the prediction did.
Advice advise(const Prediction& prediction,
              const RunConfig& config,
              i64 capacity,
              const Predict& predict);

}  // namespace tessera
