#pragma once
#include <sys/types.h>

namespace tessera {

/// The process that started the ranks of a host: the nearest ancestor without this variable, which
/// it gives to each rank. What stands between (a script, numactl, a debugger) has inherited it.
pid_t starter_process(const char* rank_variable);

}  // namespace tessera
