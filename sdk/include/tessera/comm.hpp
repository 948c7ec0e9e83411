#pragma once
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/collective.hpp"
#include "tessera/device.hpp"
#include "tessera/identified.hpp"

namespace tessera {

class HostGroup;
class Progress;

struct GroupSpec {
  std::string name;          ///< "tp[0,1]"
  std::vector<i64> members;  ///< global ranks, in group order
  int index = 0;             ///< of this rank among the members
  int id = 0;                ///< the same on all members, unique in the world
  CommLane lane = CommLane::critical;
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
  struct Place {  // for errors
    i64 rank = 0;
    std::shared_ptr<const GroupSpec> group;
    CollectiveKind kind = CollectiveKind::barrier;
    CallName name;
    std::string text() const;
  };
  Place place_;
};

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
  i64 number(i64 member) const {
    return numbers.empty() ? member : numbers[static_cast<std::size_t>(member)];
  }
};

/// Carries data between ranks. Plugin kind "communicator". One per rank. What it declares besides
/// is known before a rank starts:
/// - `static constexpr std::string_view kMemoryKind`, what memory_kind() returns: a device with
///   other memory is then refused by the launcher, and otherwise when ranks meet.
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
  /// Tells peers that this rank fails, with the reason; they stop waiting. Callable from any state.
  void abort(std::string_view reason) noexcept;

 private:
  virtual std::string_view do_name() const = 0;
  virtual std::string_view do_memory_kind() const { return kHostMemory; }
  virtual std::unique_ptr<GroupBackend> do_create_group(const GroupSpec& spec, Device& device) = 0;
  virtual std::shared_ptr<MemorySource> do_memory() { return nullptr; }
  virtual bool do_progress() { return false; }
  virtual void do_abort(std::string_view reason) noexcept = 0;
};

/// Counts the collectives that a group has started.
struct GroupCounters {
  struct Entry {
    i64 calls = 0, bytes = 0;  ///< bytes: of this rank's input; of parts, those for other members
  };
  Entry kinds[7];  ///< by CollectiveKind
  const Entry& operator[](CollectiveKind kind) const { return kinds[static_cast<int>(kind)]; }
};

/// An ordered set of ranks and the collectives among them. Layers use differentiable collectives
/// (collectives.hpp) instead. All members call the same collectives in the same order. Every
/// collective has a name and a deadline; a timeout, a size mismatch and a dead peer are Errors that
/// name rank, group and operation. A group of one does nothing and counts nothing.
///
/// A collective starts after what is enqueued on `after`, the stream that its inputs were computed
/// on. Sums have one fixed order: equal bits on all members and in all runs of one group. Which
/// order it is depends on the communicator.
///
/// Calls return at once where the device is asynchronous, with one exception: under `comm.staged`
/// starting a collective blocks the host until its inputs are computed and copied to host blocks,
/// and waiting for one blocks it until peers have done their part.
class TESSERA_API ProcessGroup {
 public:
  /// `progress`, which outlives it, is told of each collective; nullptr: nobody is.
  ProcessGroup(GroupSpec spec,
               std::unique_ptr<GroupBackend> backend,
               i64 rank,
               Progress* progress = nullptr);
  ~ProcessGroup();
  const std::string& name() const { return spec_->name; }
  int size() const { return static_cast<int>(spec_->members.size()); }
  int index() const { return spec_->index; }
  const std::vector<i64>& members() const { return spec_->members; }
  CommLane lane() const { return spec_->lane; }
  bool capturable() const;

  /// Reduces `tensor` in place.
  Work all_reduce(Stream& after, const Tensor& tensor, ReduceOp op, std::string_view name);
  /// `output` holds size() × input, in group order along dimension 0.
  Work all_gather(Stream& after, const Tensor& input, const Tensor& output, std::string_view name);
  /// `output` is this member's slice along dimension 0 of the sum over members of `input`.
  Work reduce_scatter(Stream& after,
                      const Tensor& input,
                      const Tensor& output,
                      std::string_view name);
  Work broadcast(Stream& after, const Tensor& tensor, int root, std::string_view name);
  /// One peer's part of an all_to_all or an exchange.
  struct Part {
    int peer;
    Tensor tensor;
  };
  /// One send and one receive for every member, this one included; sizes may differ.
  Work all_to_all(Stream& after,
                  const std::vector<Part>& sends,
                  const std::vector<Part>& receives,
                  std::string_view name);
  /// Sends and receives that progress together; replaces lone sends and receives.
  Work exchange(Stream& after,
                const std::vector<Part>& sends,
                const std::vector<Part>& receives,
                std::string_view name);
  /// Rows `first` to `first` + `count` of a dense tensor, as one peer's part of an exchange.
  struct Rows {
    int peer;
    const Tensor* of;
    i64 first, count;
  };
  /// The same exchange, for many parts: none has a handle of its own. The tensors may go after the
  /// call, as the Work keeps their memory.
  Work exchange_rows(Stream& after,
                     std::span<const Rows> sends,
                     std::span<const Rows> receives,
                     std::string_view name);
  /// Waits on the host until every member is here.
  void barrier(Stream& stream, std::string_view name);

  const GroupCounters& counters() const { return counters_; }
  void reset_counters() { counters_ = {}; }

 private:
  std::shared_ptr<PendingCollective> start(Stream& after, Collective collective);
  Work transfer(CollectiveKind kind,
                Stream& after,
                const std::vector<Part>& sends,
                const std::vector<Part>& receives,
                std::string_view name);
  void record(CollectiveKind kind, const CallName& name, const TensorArg& input, i64 bytes);
  std::shared_ptr<const GroupSpec> spec_;
  std::unique_ptr<GroupBackend> backend_;
  i64 rank_;
  GroupCounters counters_;
  Progress* progress_;
  int place_ = -1;  // of this group in it
};

}  // namespace tessera
