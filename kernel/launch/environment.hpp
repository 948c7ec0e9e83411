#pragma once
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "kernel/config/run_config.hpp"
#include "tessera/types.hpp"

namespace tessera {

// Environment variables that the launcher sets for its ranks. The token may also be given by the
// user, and has to be when ranks of several hosts meet; the job's name may be, where two jobs of
// one user on one host cannot be told apart.
inline constexpr const char* kRankVariable = "TESSERA_RANK";
inline constexpr const char* kWorldVariable = "TESSERA_WORLD_SIZE";
inline constexpr const char* kStoreVariable = "TESSERA_STORE";
inline constexpr const char* kTokenVariable = "TESSERA_RUN_TOKEN";
inline constexpr const char* kReportVariable = "TESSERA_REPORT_FD";
inline constexpr const char* kProgressVariable = "TESSERA_PROGRESS";
inline constexpr const char* kThreadsVariable = "TESSERA_RANK_THREADS";
inline constexpr const char* kJobVariable = "TESSERA_JOB";

/// Which rank this process is, and where it meets the others. Read from environment variables of
/// the program that started it: our launcher, torchrun, mpirun (Open MPI), mpiexec (MPICH, Intel
/// MPI) or srun.
struct RankEnvironment {
  i64 rank = 0, world = 1;
  i64 local_rank = 0, local_world = 1;  ///< among the ranks of this host
  std::string store = {};      ///< "unix:@name" (all ranks on this host) or "tcp:host:port"
  std::string token = {};      ///< what every connection to the store proves
  bool own = false;            ///< our launcher started us and hosts the store; else rank 0 does
  int report = -1;             ///< where report_failure() writes; -1: nobody listens
  int progress = -1;           ///< number of the launcher's ProgressBoard; -1: there is none
  std::string starter = {};    ///< for messages: "tessera", "torchrun", "mpirun", "mpiexec", "srun"
  int threads = 0;             ///< of each rank, as our launcher has decided; 0: each decides
  bool unnamed_job = false;    ///< the starter gives none, so the store is named after its process
  std::string variables = {};  ///< that say all this, for messages: "RANK=0 and WORLD_SIZE=2"
  std::string without_starter = {};   ///< "env -u RANK -u WORLD_SIZE": as if nobody had started it
  std::filesystem::path secret = {};  ///< folder of the user's secret, where that makes the token
};

/// Value of an environment variable; none when it is not set or empty.
using EnvironmentReader = std::function<std::optional<std::string>(const char* name)>;

/// None when nobody but the user started this process. ConfigError, naming the variables, when they
/// contradict each other or some are missing.
std::optional<RankEnvironment> detect_environment();
std::optional<RankEnvironment> detect_environment(const EnvironmentReader& read);

/// Compute threads of each of this many ranks on this host: the CPUs that this process may use,
/// shared out evenly; at least 1.
i64 auto_threads(i64 local_world);
/// What device.threads says; "auto" is auto_threads(), or as many as OpenMP's settings allow.
int rank_threads(const DeviceSection& device, i64 local_world);
/// Says that such a setting made "auto" fewer; empty otherwise.
std::string limited_threads_text(const DeviceSection& device, i64 local_world);

}  // namespace tessera
