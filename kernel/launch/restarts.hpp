#pragma once
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tessera/types.hpp"

namespace tessera {

/// How an attempt of all ranks failed.
struct AttemptFailure {
  i64 step = 0;            ///< that the rank which failed first had begun; 0: none
  std::string cause = {};  ///< the line that names the cause
};

/// "in step 57", "before the first step": where a run failed.
std::string step_text(i64 step);

/// What ranks that start again are told.
struct Restart {
  std::string from;  ///< for people, after "all ranks start": "again from …/step-50"
  std::vector<std::string> arguments = {};  ///< added to the program's
};

/// Whether all ranks start again after a failure: a limited number of times, and never after one
/// that was seen before at the same step, since what is deterministic fails again.
class Restarts {
 public:
  explicit Restarts(i64 limit) : limit_(limit) {}
  struct Decision {
    bool again = false;
    std::string why_not = {};  ///< empty where nobody asked for restarts
  };
  /// Counts the restart that it allows.
  Decision decide(const AttemptFailure& failure);
  i64 limit() const { return limit_; }
  i64 made() const { return made_; }

 private:
  i64 limit_, made_ = 0;
  std::set<std::pair<i64, std::string>> seen_;
};

}  // namespace tessera
