#pragma once
#include <memory>
#include <vector>

#include "tessera/base/api.hpp"

namespace tessera {

class PendingCollective;
class Stream;

/// Handle to a started collective. Keeps its tensors alive until it is waited for. A Work that is
/// dropped, or assigned over, enqueues its wait on the stream that the collective was launched
/// after; an error of that wait is logged, and the group's next wait throws it too. While an
/// exception unwinds the stack it does not wait: that rank has to abort its communicator.
class TESSERA_API Work {
 public:
  Work() = default;  ///< nothing pending
  /// Memory that it keeps alive: of one or two tensors, or of transfers.
  using Memory = std::shared_ptr<const void>;
  Work(std::shared_ptr<PendingCollective> pending, Stream& after, Memory first, Memory second);
  Work(std::shared_ptr<PendingCollective> pending,
       Stream& after,
       std::vector<Memory> sends,
       std::vector<Memory> receives);
  Work(Work&& other) noexcept;
  Work& operator=(Work&& other) noexcept;
  ~Work();
  bool pending() const { return pending_ != nullptr; }
  /// Another handle to the same collective, which keeps its tensors alive too: for results that are
  /// read at different places. Each is waited for.
  Work share() const;
  /// Enqueues the wait on `stream` and returns. Waits for this collective only.
  void wait(Stream& stream);
  /// For an exchange: enqueues the wait for what is received. If something is sent too, the Work
  /// stays pending and keeps those tensors, which peers may still read, until `wait`.
  void wait_received(Stream& stream);
  /// Blocks the host. In a training step only MoE splits and logging do.
  void join();

 private:
  void drop() noexcept;
  void release();
  std::shared_ptr<PendingCollective> pending_;
  Stream* after_ = nullptr;
  Memory first_, second_;
  std::vector<Memory> sends_, receives_;
};

}  // namespace tessera
