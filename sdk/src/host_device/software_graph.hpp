#pragma once
#include <memory>
#include <string>
#include <vector>

#include "sdk/src/host_device/host_event.hpp"
#include "sdk/src/host_device/host_task.hpp"
#include "tessera/device/capture_rules.hpp"

namespace tessera {

/// What a host device replays: tasks and waits in the order in which the host gave them, which is
/// an order that their events allow.
class SoftwareGraph final : public Graph {
 public:
  struct Node {
    int stream = 0;                        ///< index of the stream it was given to
    std::shared_ptr<const HostTask> task;  ///< or none:
    int record = -1;                       ///< number of the event recorded here
    int wait = -1;                         ///< number of the event waited for here
  };

  SoftwareGraph(
      const Device& device, int origin, int events, std::vector<Node> nodes, ReplayTasks at_replay);
  int launches() const override { return launches_; }

  const Device& device() const { return device_; }
  int origin() const { return origin_; }  ///< index of the stream that the capture began on
  int events() const { return events_; }
  const std::vector<Node>& nodes() const { return nodes_; }

 private:
  const Device& device_;
  int origin_, events_, launches_;
  std::vector<Node> nodes_;
};

/// A capture in progress: the rules of every device, and what was recorded.
class Capture : public CaptureRules {
 public:
  using CaptureRules::CaptureRules;

  void add(Stream& stream, std::shared_ptr<const HostTask> task);
  /// An event of this capture; the stream is part of it.
  Event record(Stream& stream);
  bool recorded(const HostEvent& event) const { return CaptureRules::recorded(event.point); }
  /// Orders `stream` after an event of this capture.
  void wait(Stream& stream, const HostEvent& event);
  /// Throws when invalid or when a fork was not joined.
  std::unique_ptr<SoftwareGraph> finish();

 private:
  std::vector<SoftwareGraph::Node> nodes_;
  int events_ = 0;
};

}  // namespace tessera
