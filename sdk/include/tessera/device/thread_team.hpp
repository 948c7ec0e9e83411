#pragma once
#include <string>

#include "tessera/base/api.hpp"

// The threads of a rank are a team of OpenMP, which may be smaller than the one that was asked for:
// settings of the environment, other code of the process and regions within regions decide. Loops
// of parallel_for are right with any team. A library that plans a product for n threads is wrong,
// without an error, when fewer run it.
namespace tessera {

/// The largest team that OpenMP's settings allow, and why it has a limit: "OMP_THREAD_LIMIT=1".
struct TeamLimit {
  int threads;     ///< INT_MAX where nothing limits it
  std::string by;  ///< empty where nothing limits it
};
/// The limit of a team that the calling thread would start now. Starts nothing.
TESSERA_API TeamLimit team_limit();

/// Whether OpenMP binds each thread to a place of its own (OMP_PROC_BIND, OMP_PLACES,
/// GOMP_CPU_AFFINITY): then the first thread of each process runs on the first of allowed_cpus().
TESSERA_API bool threads_are_bound();

/// Starts a team of the calling thread and counts it. Its threads then wait for work. Throws Error
/// with the reason where it is smaller, or where its stacks are too small. HostDevice does it
/// before the first launch, on its rank's thread.
TESSERA_API void start_team(int threads);

/// Throws Error with the reason unless a library that the calling thread calls now plans for
/// `threads` (set_parallel_threads) and gets as many. Reads settings of OpenMP only, some
/// nanoseconds: for each launch of such a library.
TESSERA_API void require_team(int threads);

}  // namespace tessera
