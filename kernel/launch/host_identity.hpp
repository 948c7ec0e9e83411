#pragma once
#include <string>

namespace tessera {

/// A text that this process has in common with those that can share memory with it, and with no
/// others: the machine's boot and the network namespace (a container has its own), or TESSERA_HOST.
std::string host_identity();

}  // namespace tessera
