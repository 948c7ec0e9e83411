#include "kernel/config/curve_keys.hpp"

#include <algorithm>
#include <string_view>

namespace tessera {

namespace {

bool is_curve_key(std::string_view path) {
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
  return std::ranges::find(kSections, path.substr(0, path.find('.'))) != std::end(kSections) ||
         std::ranges::find(kKeys, path) != std::end(kKeys);
}

}  // namespace

bool shapes_curve(const Difference& difference) {
  if (difference.is_path && difference.path != "checkpoint.init_from") return false;
  return is_curve_key(difference.path);
}

bool follows_length(const Difference& difference) {
  return difference.derived && difference.left && difference.right && shapes_curve(difference) &&
         !is_curve_key(difference.from);
}

}  // namespace tessera
