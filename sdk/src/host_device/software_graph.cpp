#include "sdk/src/host_device/software_graph.hpp"

#include <algorithm>
#include <utility>

namespace tessera {

SoftwareGraph::SoftwareGraph(
    const Device& device, int origin, int events, std::vector<Node> nodes, ReplayTasks at_replay)
    : Graph(std::move(at_replay)),
      device_(device),
      origin_(origin),
      events_(events),
      nodes_(std::move(nodes)) {
  launches_ = static_cast<int>(std::count_if(nodes_.begin(), nodes_.end(), [](const Node& node) {
    return node.task && node.task->is_launch();
  }));
}

void Capture::add(Stream& stream, std::shared_ptr<const HostTask> task) {
  CaptureRules::add(stream);
  nodes_.push_back({stream.index(), std::move(task)});
}

Event Capture::record(Stream& stream) {
  auto event = std::make_shared<HostEvent>();
  event->point = CaptureRules::record(stream);
  event->number = events_++;
  nodes_.push_back({stream.index(), nullptr, event->number});
  return {event};
}

void Capture::wait(Stream& stream, const HostEvent& event) {
  if (!CaptureRules::wait(stream, event.point)) return;
  nodes_.push_back({stream.index(), nullptr, -1, event.number});
}

std::unique_ptr<SoftwareGraph> Capture::finish() {
  require_complete();
  return std::make_unique<SoftwareGraph>(
      origin().device(), origin().index(), events_, std::move(nodes_), take_replay_tasks());
}

}  // namespace tessera
