#include "kernel/cli/eval_layout.hpp"

#include <algorithm>

#include "kernel/cli/stored_model.hpp"

namespace tessera {

// A round has as many microbatches as the pipeline has ranks.
ConfigText eval_layout(const EvalOptions& options) {
  const Config said = Config::parse("", "tessera eval", options.sets);
  const auto size = [&](const char* axis) {
    const Entry* entry = said.tree().find(std::string("parallel.") + axis);
    const auto* number =
        entry == nullptr || !entry->value ? nullptr : std::get_if<i64>(&entry->value->data);
    return number == nullptr || *number < 1 ? 1 : *number;
  };
  const i64 pipeline = size("pipeline"), replica = size("tensor") * size("context") * pipeline;
  const i64 replicas = std::max<i64>(options.ranks / replica, 1);
  const UntrainedLayout layout{.ranks = options.ranks,
                               .data = "\"auto\"",
                               .samples = options.batch * pipeline * replicas,
                               .micro = options.batch};
  return {"tessera eval", layout.keys()};
}

}  // namespace tessera
