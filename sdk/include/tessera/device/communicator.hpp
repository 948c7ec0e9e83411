#pragma once
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/identified.hpp"
#include "tessera/base/memory.hpp"
#include "tessera/process_group.hpp"

namespace tessera {

class Device;
class HostGroup;

/// Which collective of which rank, for errors: "rank 2, group tp[2,3]: all_reduce "x" #4".
struct TESSERA_API CollectivePlace {
  i64 rank = 0;  ///< its number in the run
  std::shared_ptr<const GroupSpec> group;
  CollectiveKind kind = CollectiveKind::barrier;
  CallName name;
  std::optional<u64> number = {};  ///< of those of the group in which all members take part
  std::string text() const;
};

/// A started collective, as its backend keeps it.
class TESSERA_API PendingCollective : public Identified {
 public:
  ~PendingCollective() override;
  /// Later work of `stream` sees the result and may overwrite the inputs; other collectives may
  /// still be under way. Returns at once where the device is asynchronous, except that a staged
  /// collective (comm.staged) waits for peers here, on the rank's thread. May be called again.
  void wait(Stream& stream);
  /// For an exchange: later work of `stream` sees what was received, even while peers have not yet
  /// taken what is sent. wait() follows for the sends. A backend that cannot tell the two apart
  /// waits for both.
  void wait_received(Stream& stream);
  /// Blocks the host until done; throws Error when it failed or took too long.
  void join();

 private:
  virtual void do_wait(Stream& stream) = 0;
  virtual void do_wait_received(Stream& stream) { wait(stream); }
  virtual void do_join() = 0;
  friend class Work;
  friend class ProcessGroup;
  CollectivePlace place_;
};

/// How a communicator carries out collectives of one group. Called on the rank's thread.
class TESSERA_API GroupBackend : public Identified {
 public:
  ~GroupBackend() override;
  /// Starts a collective after what is enqueued on `after` and returns.
  std::shared_ptr<PendingCollective> start(Collective collective, Stream& after);
  /// May its collectives be recorded in a graph? Where not, one that starts under capture is an
  /// Error, which ProcessGroup throws.
  virtual bool capturable() const = 0;
  /// This group where the CPU carries out its collectives: its waits may block the rank's thread,
  /// and recorded ones run on the host again. nullptr where a device's library enqueues them.
  virtual HostGroup* host_group() { return nullptr; }
  /// Does it only count bytes? Then neighbouring parts of one tensor for one peer may be told as
  /// one of as many rows, at the address of the first (ProcessGroup::exchange_rows).
  virtual bool counts_only() const { return false; }

 private:
  virtual std::shared_ptr<PendingCollective> do_start(Collective collective, Stream& after) = 0;
};

/// A rendezvous that all ranks can reach: a key-value store. Thread-safe.
class TESSERA_API Store {
 public:
  virtual ~Store();
  virtual void set(std::string_view key, std::string_view value) = 0;
  /// Waits for the key; throws Error naming key and the seconds waited.
  virtual std::string get(std::string_view key, std::chrono::milliseconds timeout) = 0;
  /// Adds to a counter and returns its new value.
  virtual i64 add(std::string_view key, i64 amount) = 0;
};

struct CommunicatorArguments {
  i64 rank = 0, world = 1;
  Store* store = nullptr;                          ///< outlives the communicator
  std::chrono::milliseconds timeout{60000};        ///< of a collective
  std::chrono::milliseconds init_timeout{300000};  ///< of slow phases
  /// Where it joins a part of the run's ranks: their numbers in the run, for errors.
  std::vector<i64> numbers = {};
  int share = 1;  ///< ranks that may have the same unit of hardware (DeviceArguments::share)
  i64 number(i64 member) const {
    return numbers.empty() ? member : numbers[static_cast<std::size_t>(member)];
  }
};

/// Which ranks a communicator joins.
enum class CommunicatorReach : u8 {
  unstated,  ///< `comm.type = "auto"` passes it by
  one_host,
  hosts,  ///< one or several
};

/// Carries data between ranks. Plugin kind "communicator". One per rank. What it declares besides
/// is known before a rank starts:
/// - `static constexpr std::string_view kMemoryKind`, what memory_kind() returns: a device with
///   other memory is then refused by the launcher, and otherwise when ranks meet.
/// - `static constexpr CommunicatorReach kReach`, with kMemoryKind: `comm.type = "auto"` may choose
///   it for the ranks of one host, or of several. Two loaded ones that state the same memory and
///   reach are a ConfigError of a run with "auto".
/// - `static i64 scratch_bytes(const Collective& collective, int members)`, where it takes memory
///   of its own for collectives: bytes on each member until the collective is complete.
///
/// An error that another rank is to blame for has the kind peer_failed where that rank was heard
/// of, and peer_silent where it was waited for in vain (error.hpp): who failed is found by these.
class TESSERA_API Communicator : public Identified {
 public:
  static constexpr std::string_view kKind = "communicator";
  using Arguments = CommunicatorArguments;

  ~Communicator() override;
  std::string_view name() const;
  /// What it is by, with its version, for the first lines of a run: "NCCL 2.28.9". Empty: its name
  /// says it all.
  std::string library() const;
  /// The kind of memory of the tensors that it carries (Device::memory_kind); empty: any. With
  /// `comm.staged = true` one that carries kHostMemory serves devices of every kind, if its groups
  /// are host groups: it is passed collectives whose tensors lie in host blocks of the device.
  std::string_view memory_kind() const;
  /// Called on every member, for all groups of the world in one global order.
  std::unique_ptr<GroupBackend> create_group(const GroupSpec& spec, Device& device);
  /// Slabs that peers reach directly; empty where there is no such memory. The rank's device is
  /// made with it, so tensors that enter collectives are never staged.
  std::shared_ptr<MemorySource> memory();
  /// Advances what this rank has started, as far as that goes without waiting; true while some of
  /// it is not complete. For communicators in which only the rank's own calls move anything: called
  /// while the rank waits elsewhere, on any thread, but never during another call of this rank.
  bool progress();
  /// Throws what it has found to be wrong: a collective that a device waits for and that failed, or
  /// that a peer does not come to. The host calls it every few milliseconds while it is blocked in
  /// the rank's device, on the rank's thread. Communicators whose collectives run on the host throw
  /// from these, and have nothing to find here.
  void check();
  /// Tells peers that this rank fails, with the reason; they stop waiting. Callable from any state.
  void abort(std::string_view reason) noexcept;

 private:
  virtual std::string_view do_name() const = 0;
  virtual std::string do_library() const { return {}; }
  virtual std::string_view do_memory_kind() const { return kHostMemory; }
  virtual std::unique_ptr<GroupBackend> do_create_group(const GroupSpec& spec, Device& device) = 0;
  virtual std::shared_ptr<MemorySource> do_memory() { return nullptr; }
  virtual bool do_progress() { return false; }
  virtual void do_check() {}
  virtual void do_abort(std::string_view reason) noexcept = 0;
};

}  // namespace tessera
