#pragma once
#include <string>
#include <vector>

namespace tessera {

/// The user's environment variable: ranks with the same text there share a host, whatever machine
/// they run on.
inline constexpr const char* kHostVariable = "TESSERA_HOST";

/// A text that is equal in processes that can share memory, and in no others: the machine's boot
/// and the network namespace (a container has its own), or TESSERA_HOST.
std::string host_identity();

/// The communicators that join the ranks of a run.
struct CommunicatorChoice {
  std::string type;          ///< of all groups, or of groups whose members share a host
  std::string between = {};  ///< of the other groups; empty: there is only `type`
  std::string text = {};     ///< for people: "shm within 2 hosts and gloo between them"
};

/// The types that may be chosen where comm.type is `configured`.
std::vector<std::string> possible_communicators(const std::string& configured);

/// `configured` is comm.type; where each rank is (host_identity()) decides what "auto" is.
CommunicatorChoice choose_communicators(const std::string& configured,
                                        const std::vector<std::string>& hosts);

}  // namespace tessera
