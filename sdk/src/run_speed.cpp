#include "tessera/run_speed.hpp"

#include <fmt/format.h>

#include "tessera/io/size_text.hpp"

namespace tessera {

std::string work_text(const RunStart& run, double tokens_per_second) {
  const double achieved = run.flops_per_second(tokens_per_second);
  if (achieved <= 0) return "";
  const std::string count = short_count(achieved);
  const bool unit = count.find(' ') != std::string::npos;
  std::string text =
      fmt::format("{}{}FLOP/s{}", count, unit ? "" : " ", run.world > 1 ? " a rank" : "");
  if (run.peak_flops > 0) {
    text += fmt::format(", MFU {:.1f} %", 100 * run.utilization(tokens_per_second));
  }
  return text;
}

void add_work(Json& line, const RunStart& run, double tokens_per_second) {
  const double achieved = run.flops_per_second(tokens_per_second);
  if (achieved <= 0) return;
  line.add(kFlopsPerSecond, achieved);
  if (run.peak_flops > 0) line.add(kMfu, run.utilization(tokens_per_second));
}

}  // namespace tessera
