#pragma once
#include <memory>
#include <string>

#include "tessera/base/memory.hpp"
#include "tessera/device/communicator.hpp"

namespace tessera {

/// Memory of ranks that address each other's bytes: threads of one process, processes with shared
/// segments. A communicator brings one for its rank and leaves the collectives to DirectEngine.
/// What `reserve` gives is reached by every peer; it stays readable for peers when this rank ends.
class TESSERA_API DirectMemory : public MemorySource {
 public:
  static constexpr u64 kPrivate = ~u64{0};

  ~DirectMemory() override;
  /// The name under which peers find [address, address + bytes) of this rank; kPrivate when they
  /// cannot reach it: then the engine copies through memory that they can.
  virtual u64 token(const void* address, i64 bytes) const = 0;
  /// Where this rank sees what `rank` named; throws Error when it lies outside of its memory.
  virtual void* at(i64 rank, u64 token, i64 bytes) const = 0;
  /// Why a rank will never answer again ("its process ended"); empty while it lives. Called some
  /// hundred times a second while waiting.
  virtual std::string death(i64 rank) = 0;
};

struct DirectState;

/// Collectives over directly readable memory, one engine a rank, used on the rank's thread. Members
/// meet through counters that each only its owner writes; reductions read the peers' tensors and
/// write the result to all of them. Messages up to 4 KiB travel in the control blocks. A wait is
/// for one collective; while it lasts, this rank also advances, without blocking, everything else
/// that it has started, so members of several groups may wait in different orders.
///
///     class Shm : public Communicator {
///       std::unique_ptr<GroupBackend> do_create_group(const GroupSpec& s, Device& d) override {
///         return engine_.create_group(s, d);
///       }
///       …
class TESSERA_API DirectEngine {
 public:
  /// Meets all ranks through the store. `name` starts its keys and stands in errors.
  DirectEngine(std::string name,
               const CommunicatorArguments& arguments,
               std::shared_ptr<DirectMemory> memory);
  ~DirectEngine();
  DirectEngine(const DirectEngine&) = delete;
  DirectEngine& operator=(const DirectEngine&) = delete;

  /// A HostGroup. Meets the other members through the store.
  std::unique_ptr<GroupBackend> create_group(const GroupSpec& spec, Device& device);
  /// See Communicator::progress.
  bool progress();
  /// See Communicator::abort. When it returns no peer touches this rank's tensors any more.
  void abort(std::string_view reason) noexcept;

  struct Counters {
    i64 direct = 0;                    ///< inputs that peers read in place
    i64 inlined = 0;                   ///< small ones, in control blocks
    i64 staged = 0, staged_bytes = 0;  ///< copied through the source, because outside of it
    i64 woken = 0;                     ///< sleeps of a wait that a peer ended
  };
  const Counters& counters() const;

 private:
  std::shared_ptr<DirectState> state_;
};

}  // namespace tessera
