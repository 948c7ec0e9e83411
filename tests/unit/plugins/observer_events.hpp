#pragma once
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/observer.hpp"
#include "tests/unit/plugins/plugins_support.hpp"

/// What observers are told in their tests, and how their texts are looked at.
namespace tessera::observer_events {

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

inline RunStart run_start() {
  RunStart start;
  start.name = "quick \"start\"";
  start.out = "runs/quick";
  start.last_step = 40;
  start.world = 2;
  start.parameters = 10795776;
  start.tokens_per_step = 2048;
  start.layout = "tp 2, dp 1 on 2 ranks (shm)";
  start.device = "cpu, 2 threads: avx2";
  return start;
}

inline StepEnd step_end(i64 step, double loss) {
  StepEnd end;
  end.step = step;
  end.loss = loss;
  end.grad_norm = 0.714;
  end.lr = 3e-4;
  end.seconds = 0.5;
  end.tokens_per_second = 4096;
  return end;
}

inline int count(const std::string& text, std::string_view what) {
  int n = 0;
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; ++at) ++n;
  return n;
}

// Metrics as a run writes them.
template <class... Events>
void metrics(const TestFolder& folder, i64 resume_step, const Events&... events) {
  ObserverArguments arguments{folder.path(), resume_step};
  const auto observer = make_plugin<Observer>("metrics", "", arguments);
  (observer->on(events), ...);
}

}  // namespace tessera::observer_events
