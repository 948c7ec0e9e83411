#include "kernel/config/curve_keys.hpp"

#include <algorithm>
#include <string_view>

namespace tessera {

bool shapes_curve(const Difference& difference) {
  constexpr std::string_view kSections[] = {
      "batch", "tokenizer", "model", "precision", "optimizer", "lr", "data"};
  constexpr std::string_view kKeys[] = {"run.seed",
                                        "parallel.gradient_dtype",
                                        "checkpoint.init_from",
                                        "checkpoint.init_skip",
                                        "checkpoint.init_changes",
                                        "check.on_bad_step",
                                        "check.loss_rise",
                                        "check.loss_window"};
  const std::string_view path = difference.path;
  if (difference.is_path && path != "checkpoint.init_from") return false;
  return std::ranges::find(kSections, path.substr(0, path.find('.'))) != std::end(kSections) ||
         std::ranges::find(kKeys, path) != std::end(kKeys);
}

}  // namespace tessera
