#pragma once
#include <string>

namespace tessera {

/// "0.1.0, commit 1a2b3c4d5e6f", with the commit of the sources that this was built from,
/// "1a2b3c4d5e6f with changes", or "unknown" where they are in no git repository
/// (kernel/commit.cmake).
std::string version_text();

}  // namespace tessera
