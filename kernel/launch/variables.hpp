#pragma once

namespace tessera {

// Environment variables that the launcher sets for its ranks. The token may also be given by the
// user, and has to be when ranks of several hosts meet; the job's name may be, where two jobs of
// one user on one host cannot be told apart.
inline constexpr const char* kRankVariable = "TESSERA_RANK";
inline constexpr const char* kWorldVariable = "TESSERA_WORLD_SIZE";
inline constexpr const char* kStoreVariable = "TESSERA_STORE";
inline constexpr const char* kTokenVariable = "TESSERA_RUN_TOKEN";
inline constexpr const char* kReportVariable = "TESSERA_REPORT_FD";
inline constexpr const char* kJobVariable = "TESSERA_JOB";
// The user's: ranks with the same text there share a host, whatever machine they run on.
inline constexpr const char* kHostVariable = "TESSERA_HOST";

}  // namespace tessera
