#pragma once
#include <atomic>
#include <cstddef>

#include "tessera/device/collective_call.hpp"

namespace tessera {

// What ranks of one host share: plain data in memory that all of them map, zero at first. Every
// field but the bell's is written by one rank; a counter is stored with release after what it
// announces, and then the bells of the ranks that may wait for it are rung.

inline constexpr int kRing = 32;           ///< collectives that a member may be ahead
inline constexpr int kChannelRing = 8;     ///< sends to one peer that may be under way
inline constexpr i64 kInlineBytes = 4096;  ///< up to here data travel in the control block

/// One of each rank.
struct RankState {
  enum Phase : u32 { running, aborting, aborted, left };
  alignas(64) std::atomic<u32> phase;
  i64 origin;  ///< the rank whose failure it was
  char text[944];
  alignas(64) std::atomic<u32> busy;    ///< inside peers' tensors now
  alignas(64) std::atomic<u32> asleep;  ///< it waits for its bell; who rings takes this back
  std::atomic<u32> bell;                ///< a futex
};

/// What a member announces: its part of one collective, or one tensor that it sends.
struct alignas(64) Announcement {
  u64 token;  ///< of the input
  CollectiveCall call;
};
static_assert(sizeof(Announcement) == 128);

/// The sends of one member to one peer, and how many of that peer's sends it has taken.
struct Channel {
  alignas(64) std::atomic<u64> sent;
  alignas(64) std::atomic<u64> taken;
  Announcement ring[kChannelRing];
};

/// One of each member of each group, followed by a Channel for each member.
struct MemberControl {
  alignas(64) std::atomic<u64> posted;  ///< collectives announced
  alignas(64) std::atomic<u64> done;    ///< collectives after which it reads no peer's input
  Announcement ring[kRing];
  alignas(64) std::byte inlined[kRing][kInlineBytes];

  Channel& channel(int peer) { return reinterpret_cast<Channel*>(this + 1)[peer]; }
  static i64 bytes(int members) {
    return static_cast<i64>(sizeof(MemberControl)) + members * static_cast<i64>(sizeof(Channel));
  }
};
static_assert(std::atomic<u64>::is_always_lock_free && sizeof(MemberControl) % 64 == 0);

}  // namespace tessera
