#pragma once
#include <chrono>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sdk/src/direct_comm/direct_control.hpp"
#include "tessera/direct_comm.hpp"

namespace tessera {

/// One started collective of this rank, carried out in small steps.
class DirectTask {
 public:
  virtual ~DirectTask() = default;
  /// Does what can be done without waiting; true when complete. Throws on a mismatch.
  virtual bool advance() = 0;
  /// "group tp[0,1]: all_reduce "x" #4", for errors.
  virtual std::string title() const = 0;
  /// Whom it waits for and why, for a timeout.
  virtual std::string waiting_for() const = 0;
  /// Ranks that have not yet done what it needs now.
  virtual std::vector<i64> missing() const = 0;

  u64 ticket = 0;
};

/// What engine and groups of one rank share: the peers, the failure, and everything started.
struct DirectState {
  DirectState(std::string name,
              const CommunicatorArguments& arguments,
              std::shared_ptr<DirectMemory> memory);
  ~DirectState();

  /// Adds a task behind all others and advances what can be.
  u64 add(std::unique_ptr<DirectTask> task);
  /// Waits until this task and all before it are complete.
  void finish(u64 ticket);
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
  void check_peers(const DirectTask& waiting);
  [[noreturn]] void die(const std::string& what, i64 origin, const std::string& reason);

  std::vector<std::unique_ptr<DirectTask>> pending_;  // by ticket
  u64 last_ticket_ = 0;
  std::multimap<i64, void*> staging_;  // not in use, by size
  std::string failure_;
  int spins_;
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
