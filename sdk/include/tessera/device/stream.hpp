#pragma once
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tessera/types.hpp"

namespace tessera {

class Device;

/// An ordered queue of launches. Created by and valid as long as its device.
class TESSERA_API Stream {
 public:
  Stream(Device& device, int index, std::string name);
  virtual ~Stream();
  Device& device() const { return device_; }
  int index() const { return index_; }  ///< 0 is the device's first stream
  const std::string& name() const { return name_; }
  /// The vendor's stream, for kernels of that device; nullptr on the CPU.
  virtual void* native() { return nullptr; }

 private:
  Device& device_;
  int index_;
  std::string name_;
};

/// A point in a stream's order. Copies name the same point. A default one names the point before
/// all work.
struct Event {
  std::shared_ptr<void> state;  ///< owned by the device's implementation
};
/// Does an event keep the time at which its stream reached it?
enum class Timing : u8 { no, yes };

/// What the host does at each replay of a graph, on the rank's thread (Device::on_replay). `stream`
/// is the one that the graph is replayed on; either may be empty.
struct ReplayTask {
  std::function<void(Stream& stream)> before;  ///< the graph is about to be enqueued
  std::function<void(Stream& stream)> after;   ///< it is enqueued
};
using ReplayTasks = std::vector<ReplayTask>;

/// Launches recorded between begin_capture and end_capture, replayed on the same addresses. Host
/// code that ran while recording is not replayed, but for what Device::on_replay was given.
class TESSERA_API Graph {
 public:
  explicit Graph(ReplayTasks at_replay = {}) : at_replay_(std::move(at_replay)) {}
  virtual ~Graph();
  /// Number of recorded operations, host tasks and copies.
  virtual int launches() const = 0;
  /// For devices: what Device::on_replay was given, in that order, at both ends of a replay.
  void before_replay(Stream& stream) const {
    for (const ReplayTask& task : at_replay_) {
      if (task.before) task.before(stream);
    }
  }
  void after_replay(Stream& stream) const {
    for (const ReplayTask& task : at_replay_) {
      if (task.after) task.after(stream);
    }
  }

 private:
  ReplayTasks at_replay_;
};

}  // namespace tessera
