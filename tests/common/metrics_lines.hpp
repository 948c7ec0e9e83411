#pragma once
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

namespace tessera::testing {

/// The lines of a run's metrics.jsonl without the keys that differ from run to run.
inline std::vector<std::string> metrics_lines(const std::string& run_folder) {
  std::ifstream file(run_folder + "/metrics.jsonl");
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    for (const char* speed :
         {"\"tokens_per_second\":", "\"seconds\":", "\"flops_per_second\":", "\"mfu\":"}) {
      const std::size_t begin = line.find(speed);
      if (begin == std::string::npos) continue;
      const std::size_t end = line.find_first_of(",}", begin);
      line.erase(begin, end - begin + (line[end] == ',' ? 1 : 0));
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

/// The number of a key in one line; none where the line has no such key.
inline std::optional<double> metric_in(const std::string& line, const std::string& key) {
  const std::string start = "\"" + key + "\":";
  const std::size_t at = line.find(start);
  if (at == std::string::npos) return std::nullopt;
  return std::strtod(line.c_str() + at + start.size(), nullptr);
}

}  // namespace tessera::testing
