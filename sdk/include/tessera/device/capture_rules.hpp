#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/device/launch_signatures.hpp"
#include "tessera/operation.hpp"

namespace tessera {

/// Where an event of a capture lies: which capture, and how far each stream is when it is reached.
/// The default is no point of a capture.
struct CapturePoint {
  u64 capture = 0;
  std::vector<i64> clock;
};

/// The bookkeeping of a capture in progress, with CUDA's rules: it spreads from the stream that it
/// began on along events, and every stream that it reached must be joined back before it ends. For
/// devices, which record or run the work themselves; errors are those of every device.
class TESSERA_API CaptureRules {
 public:
  /// `id` is not 0 and no other capture's of the device; `streams`: how many the device has.
  CaptureRules(u64 id, Stream& origin, int streams);

  u64 id() const { return id_; }
  Stream& origin() const { return origin_; }
  bool contains(const Stream& stream) const;
  /// Throws when the stream is not part of the capture. `what` names what was to be recorded.
  void require_contains(const Stream& stream, std::string_view what) const;

  /// A launch before it is recorded: throws when its stream is outside or this is the first use of
  /// the operation at its shapes. `pool_is_device` says that its workspace would come from the pool
  /// of `device`, which is an error where it needs some. Returns what it needs.
  LaunchRequirements require_launch(const Stream& stream,
                                    const Kernel& kernel,
                                    const void* args,
                                    const LaunchSignatures& launched,
                                    bool pool_is_device,
                                    std::string_view device) const;
  /// Work was recorded on a stream of the capture.
  void add(const Stream& stream);
  /// A point of this capture; the stream is part of it.
  CapturePoint record(const Stream& stream) const;
  bool recorded(const CapturePoint& point) const { return point.capture == id_; }
  /// Orders `stream` after a point of this capture; a stream outside becomes part of it. False:
  /// it already came after it. Throws for a point from outside.
  bool wait(Stream& stream, const CapturePoint& point);

  /// A task of Device::on_replay, for the graph.
  void on_replay(ReplayTask task) { at_replay_.push_back(std::move(task)); }
  ReplayTasks take_replay_tasks() { return std::exchange(at_replay_, {}); }

  /// Throws that `what` ("synchronize(…)") is not for a graph.
  [[noreturn]] void refuse(std::string_view what) const;
  /// From here on require_complete() fails with this reason; the first one stays.
  void invalidate(std::string reason);
  /// Call at the end of the capture: throws when it is invalid or a fork was not joined.
  void require_complete() const;

 private:
  struct Branch {
    Stream* stream = nullptr;  ///< nullptr while outside
    std::vector<i64> clock;    ///< how much of each branch comes before this one's end
  };
  Branch& branch(const Stream& stream);
  const Branch& branch(const Stream& stream) const;

  u64 id_;
  Stream& origin_;
  std::vector<Branch> branches_;
  ReplayTasks at_replay_;
  std::string failure_;
};

}  // namespace tessera
