#pragma once
#include <deque>
#include <map>
#include <string>

#include "history.hpp"
#include "tessera/observer.hpp"

namespace tessera {

/// What the report shows of a run.
struct ReportPage {
  enum State { running, done, stopped, failed } state = running;
  RunStart run;
  i64 step = 0, skipped = 0;
  double seconds = 0;  ///< in steps
  std::string failure, newest_checkpoint;
  History loss, norm, rate, speed, validation;
  History loss_scale, skips;  ///< its binary logarithm, and steps so far; of runs that scale it
  std::map<std::string, History> metrics;
  MemoryUse memory;
  std::deque<SampleText> samples;  ///< the newest first
};

/// Adds what is told of a step whose loss was scaled.
void add_scaled_step(ReportPage& page, i64 step, double loss_scale, double skipped_steps);

/// One HTML file that refers to nothing outside itself. All that was not written here is escaped.
std::string html_of(const ReportPage& page);

}  // namespace tessera
