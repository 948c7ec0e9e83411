#include "kernel/train/execution/graph_use.hpp"

#include <fmt/format.h>

#include "tessera/io/size_text.hpp"

namespace tessera {

namespace {

std::string bytes_text(i64 bytes) { return size_text(static_cast<double>(bytes)); }

std::string counted(i64 count, std::string_view one) {
  return fmt::format("{} {}{}", count, one, count == 1 ? "" : "s");
}

}  // namespace

std::string GraphUse::text() const {
  const double share =
      launches == 0 ? 0 : static_cast<double>(replayed) / static_cast<double>(launches);
  if (whole_step) {
    return fmt::format(
        "1 graph of a whole step, {:.0f} % of {} launches a step replayed; inputs {}, memory {}",
        100 * share,
        launches,
        bytes_text(input_bytes),
        bytes_text(scratch_bytes));
  }
  return fmt::format(
      "{} of {} in {}, {:.0f} % of {} launches a step replayed; inputs {}, slots {}, scratch {}",
      counted(graphs, "graph"),
      counted(segments, "segment"),
      counted(slots, "slot"),
      100 * share,
      launches,
      bytes_text(input_bytes),
      bytes_text(slot_bytes),
      bytes_text(scratch_bytes));
}

}  // namespace tessera
