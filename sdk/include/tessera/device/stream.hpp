#pragma once
#include <memory>
#include <string>

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

/// Launches recorded between begin_capture and end_capture, replayed on the same addresses. Host
/// code that ran while recording is not replayed.
class TESSERA_API Graph {
 public:
  virtual ~Graph();
  /// Number of recorded operations, host tasks and copies.
  virtual int launches() const = 0;
};

}  // namespace tessera
