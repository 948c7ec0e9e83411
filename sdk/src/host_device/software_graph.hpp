#pragma once
#include <memory>
#include <string>
#include <vector>

#include "sdk/src/host_device/host_event.hpp"
#include "sdk/src/host_device/host_task.hpp"

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

  SoftwareGraph(const Device& device, int origin, int events, std::vector<Node> nodes);
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

/// A capture in progress, with CUDA's rules: it spreads from the stream that it began on along
/// events, and every stream that it reached must be joined back before it ends.
class Capture {
 public:
  Capture(u64 id, Stream& origin, int streams);

  Stream& origin() const { return origin_; }
  bool contains(const Stream& stream) const;
  /// Throws when the stream is not part of the capture. `what` names what was to be recorded.
  void require_contains(const Stream& stream, std::string_view what);
  void add(Stream& stream, std::shared_ptr<const HostTask> task);
  /// An event of this capture; the stream is part of it.
  Event record(Stream& stream);
  bool recorded(const HostEvent& event) const { return event.capture == id_; }
  /// Orders `stream` after an event of this capture; a stream outside becomes part of it. Throws on
  /// an event from outside.
  void wait(Stream& stream, const HostEvent& event);
  /// From here on finish() fails with this reason.
  void invalidate(std::string reason);
  /// Throws when invalid or when a fork was not joined.
  std::unique_ptr<SoftwareGraph> finish();

 private:
  struct Branch {
    Stream* stream = nullptr;  ///< nullptr while outside
    std::vector<i64> clock;    ///< how much of each branch comes before this one's end
  };
  Branch& branch(const Stream& stream);

  u64 id_;
  Stream& origin_;
  std::vector<Branch> branches_;
  std::vector<SoftwareGraph::Node> nodes_;
  int events_ = 0;
  std::string failure_;
};

}  // namespace tessera
