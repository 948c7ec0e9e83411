#pragma once
#include <string>
#include <vector>

#include <tessera/device/communicator.hpp>

#include "segment.hpp"

namespace tessera::shm {

/// Another rank: its segment in our address space, and the means to see that it has died.
struct Peer {
  Mapping segment;
  Fd connection;  ///< kept open: it closes when the peer's process ends
  Fd process;     ///< pidfd, where the system has it
  i64 pid = 0;
};

/// Hands this rank's segment to all others and maps theirs. Ranks find each other through the
/// store and pass descriptors over unix sockets, where the system vouches for user and process.
/// The entry of this rank itself is empty. Throws Error when a rank is on another host or missing.
std::vector<Peer> meet_peers(const CommunicatorArguments& arguments, const Segment& own);

/// "its process 123 has ended"; empty while it lives.
std::string death_of(const Peer& peer);

}  // namespace tessera::shm
