#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

struct ComponentInfo;

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

/// comm.type, where it leaves the choice to what is loaded and to where the ranks are.
inline constexpr const char* kAutoCommunicator = "auto";

/// What "auto" may be for tensors in one kind of memory: the communicators that state it
/// (communicator.hpp). Empty where none does.
struct AutoCommunicators {
  std::string within;   ///< joins ranks of one host
  std::string between;  ///< joins ranks of several
};
/// Throws ConfigError, naming both, where two communicators state the same.
AutoCommunicators auto_communicators(std::span<const ComponentInfo* const> communicators,
                                     std::string_view memory_kind);

/// `configured` is comm.type; where each rank is (host_identity()) decides which of `automatic`
/// "auto" is. Throws ConfigError where there is none for that.
CommunicatorChoice choose_communicators(const std::string& configured,
                                        const std::vector<std::string>& hosts,
                                        const AutoCommunicators& automatic);

}  // namespace tessera
