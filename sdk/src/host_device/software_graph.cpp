#include "sdk/src/host_device/software_graph.hpp"

#include <algorithm>
#include <utility>

#include "tessera/error.hpp"

namespace tessera {

SoftwareGraph::SoftwareGraph(const Device& device, int origin, int events, std::vector<Node> nodes)
    : device_(device), origin_(origin), events_(events), nodes_(std::move(nodes)) {
  launches_ = static_cast<int>(std::count_if(nodes_.begin(), nodes_.end(), [](const Node& node) {
    return node.task && node.task->is_launch();
  }));
}

Capture::Capture(u64 id, Stream& origin, int streams)
    : id_(id), origin_(origin), branches_(static_cast<std::size_t>(streams)) {
  for (Branch& branch : branches_) branch.clock.resize(branches_.size());
  branch(origin).stream = &origin;
}

Capture::Branch& Capture::branch(const Stream& stream) {
  return branches_[static_cast<std::size_t>(stream.index())];
}

bool Capture::contains(const Stream& stream) const {
  return branches_[static_cast<std::size_t>(stream.index())].stream != nullptr;
}

void Capture::require_contains(const Stream& stream, std::string_view what) {
  require(contains(stream),
          "{} on stream \"{}\" while capturing on stream \"{}\", which has not forked to it: let "
          "\"{}\" wait for an event recorded in the capture first",
          what,
          stream.name(),
          origin_.name(),
          stream.name());
}

void Capture::add(Stream& stream, std::shared_ptr<const HostTask> task) {
  ++branch(stream).clock[static_cast<std::size_t>(stream.index())];
  nodes_.push_back({stream.index(), std::move(task)});
}

Event Capture::record(Stream& stream) {
  auto event = std::make_shared<HostEvent>();
  event->capture = id_;
  event->number = events_++;
  event->clock = branch(stream).clock;
  nodes_.push_back({stream.index(), nullptr, event->number});
  return {event};
}

void Capture::wait(Stream& stream, const HostEvent& event) {
  require(recorded(event),
          "stream \"{}\" waits for an event recorded outside the capture on stream \"{}\": what a "
          "graph waits for is recorded in it; wait before begin_capture",
          stream.name(),
          origin_.name());
  Branch& here = branch(stream);
  bool news = here.stream == nullptr;
  here.stream = &stream;
  for (std::size_t i = 0; i < here.clock.size(); ++i) {
    news |= event.clock[i] > here.clock[i];
    here.clock[i] = std::max(here.clock[i], event.clock[i]);
  }
  if (!news) return;
  ++here.clock[static_cast<std::size_t>(stream.index())];
  nodes_.push_back({stream.index(), nullptr, -1, event.number});
}

void Capture::invalidate(std::string reason) {
  if (failure_.empty()) failure_ = std::move(reason);
}

std::unique_ptr<SoftwareGraph> Capture::finish() {
  require(failure_.empty(),
          "the capture on stream \"{}\" failed before its end: {}",
          origin_.name(),
          failure_);
  const Branch& end = branch(origin_);
  for (std::size_t i = 0; i < branches_.size(); ++i) {
    const Branch& fork = branches_[i];
    require(!fork.stream || fork.clock[i] == end.clock[i],
            "the capture on stream \"{}\" ends while stream \"{}\", forked from it, is not joined: "
            "record an event at its end and let \"{}\" wait for it",
            origin_.name(),
            fork.stream ? fork.stream->name() : "",
            origin_.name());
  }
  return std::make_unique<SoftwareGraph>(
      origin_.device(), origin_.index(), events_, std::move(nodes_));
}

}  // namespace tessera
