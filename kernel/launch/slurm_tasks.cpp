#include "kernel/launch/slurm_tasks.hpp"

#include <charconv>

#include "tessera/error.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

namespace {

// Takes a number off the front; 0 when there is none, which no valid text has.
i64 take_number(std::string_view& text) {
  i64 value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 0) return 0;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

}  // namespace

i64 slurm_tasks_of_node(std::string_view tasks_per_node, i64 node) {
  std::string_view rest = tasks_per_node;
  i64 seen = 0;
  do {
    const i64 tasks = take_number(rest);
    i64 nodes = 1;
    if (take(rest, "(x")) {
      nodes = take_number(rest);
      if (!take(rest, ")")) nodes = 0;
    }
    if (tasks == 0 || nodes == 0) break;
    seen += nodes;
    if (node < seen) return tasks;
  } while (take(rest, ","));
  fail_config(
      "environment variable SLURM_STEP_TASKS_PER_NODE={} does not tell the tasks of node {}",
      written_plain(tasks_per_node),
      node);
}

}  // namespace tessera
