#include "kernel/schedule/draw.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tessera {

namespace {

std::string label(const Action& action, int chunks) {
  constexpr std::string_view kNames[] = {"F", "B", "Bi", "Bw"};
  const std::string text = fmt::format("{}{}", kNames[action.kind], action.microbatch);
  return chunks > 1 ? fmt::format("{}.{}", text, action.chunk) : text;
}

}  // namespace

std::string draw(const Timeline& timeline, int chunks) {
  std::size_t cell = 5;  // characters a unit of time
  for (const auto& blocks : timeline.blocks) {
    for (const Timeline::Block& block : blocks) {
      cell = std::max(cell, label(block.action, chunks).size() + 1);
    }
  }
  const auto column = [cell](double time) {
    return static_cast<std::size_t>(std::lround(time * static_cast<double>(cell)));
  };
  std::string picture;
  for (std::size_t rank = 0; rank < timeline.blocks.size(); ++rank) {
    std::string line;
    for (const Timeline::Block& block : timeline.blocks[rank]) {
      line.resize(column(block.span.start), ' ');
      line += label(block.action, chunks);
      line.resize(column(block.span.end), ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    picture += fmt::format("rank {:<2} {}\n", rank, line);
  }
  return picture;
}

std::string draw(const PipelineSchedule& schedule, const PipelineShape& shape) {
  return draw(play(orders_of(schedule, shape)), shape.chunks);
}

}  // namespace tessera
