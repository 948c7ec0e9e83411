#pragma once
#include <string>

#include "tessera/types.hpp"

namespace tessera::nccl {

/// Throws ConfigError where the environment makes ranks that wait for each other on GPUs wait for
/// ever, and warns of little shared memory, once a process.
void check_settings();

/// NCCL takes two ranks with one GPU for a mistake, unless it takes them for ranks of two hosts:
/// gives each rank's process a name of its host, and says that ranks may share, where the user has
/// not.
void let_ranks_share(i64 rank);

/// What check_settings says of a /dev/shm of so many bytes; empty where that is enough.
std::string shared_memory_warning(i64 bytes);

}  // namespace tessera::nccl
