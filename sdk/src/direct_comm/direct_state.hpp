#pragma once
#include <chrono>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sdk/src/direct_comm/direct_control.hpp"
#include "tessera/device/direct_comm.hpp"
#include "tessera/device/host_comm.hpp"

namespace tessera {

/// One started collective of this rank, carried out in small steps.
class DirectTask {
 public:
  explicit DirectTask(const HostGroup::Posted& posted)
      : ticket(posted.ticket), place(posted.place) {}
  virtual ~DirectTask() = default;
  /// Does what can be done without waiting; true when complete. Throws on a mismatch.
  virtual bool advance() = 0;
  /// For an exchange that is not complete: has everything that it receives arrived?
  virtual bool received() const { return false; }
  /// Whom it waits for and why, for a timeout.
  virtual std::string waiting_for(Until until) const = 0;
  /// Ranks that have not yet done what it needs now.
  virtual std::vector<i64> missing(Until until) const = 0;

  const HostGroup::Ticket ticket;
  const CollectivePlace place;
};

/// What engine and groups of one rank share: the peers, the failure, and everything started.
struct DirectState {
  DirectState(std::string name,
              const CommunicatorArguments& arguments,
              std::shared_ptr<DirectMemory> memory);
  ~DirectState();

  /// Adds a task after all others and advances what can be.
  void add(std::unique_ptr<DirectTask> task);
  /// Waits for this task; returns at once where it is complete. Meanwhile all others move on.
  void finish(HostGroup::Ticket ticket, Until until);
  /// Wakes the rank if it sleeps: called after each store that it may wait for.
  void ring(i64 rank);
  /// Everything started, as far as it goes without waiting; true while some of it is not complete.
  bool advance();
  /// Throws when this rank has failed before.
  void check() const;
  /// Tells peers and waits until none is inside this rank's tensors.
  void abort(i64 origin, std::string_view reason) noexcept;
  /// A block that peers reach, of at least `bytes`, whole pages; sets `bytes` to its size. nullptr
  /// when there is no more.
  void* stage(i64& bytes);
  void unstage(void* block, i64 bytes);
  /// This rank's number in the run.
  i64 number() const { return arguments.number(arguments.rank); }

  std::string name;
  CommunicatorArguments arguments;
  std::shared_ptr<DirectMemory> memory;
  std::string prefix;  ///< of keys in the store
  RankState* own = nullptr;
  std::vector<RankState*> ranks;
  std::map<int, int> groups_made;  ///< how often, by id
  DirectEngine::Counters counters;

 private:
  using Clock = std::chrono::steady_clock;
  bool progress();
  /// Sleeps until a peer rings, at most for a while, and not at all when this moves something or
  /// the task has come far enough. True when something moved.
  bool sleep(HostGroup::Ticket ticket, Until until);
  /// The task, unless it has come as far as the wait needs.
  const DirectTask* open(HostGroup::Ticket ticket, Until until) const;
  void check_peers(HostGroup::Ticket ticket, Until until);
  /// Ends communication: peers are told that `origin` failed, and why.
  [[noreturn]] void die(const Error& error, i64 origin, std::string_view reason);

  std::vector<std::unique_ptr<DirectTask>> pending_;  // by ticket
  std::multimap<i64, void*> staging_;                 // not in use, by size
  std::optional<Error> failure_;
  std::chrono::nanoseconds spin_;
};

/// Held while this rank is inside peers' tensors; throws when one of them has given up, after
/// which its memory may be gone.
class PeerAccess {
 public:
  PeerAccess(DirectState& state, std::span<const i64> members);
  ~PeerAccess();
  PeerAccess(const PeerAccess&) = delete;
  PeerAccess& operator=(const PeerAccess&) = delete;

 private:
  RankState& own_;
};

/// Thrown by PeerAccess: not an error of its own; the wait finds out which peer it was.
struct PeerGone {};

}  // namespace tessera
