#pragma once
#include <filesystem>
#include <optional>
#include <string>

namespace tessera {

/// Where the secret of this process's user on this host is: `<runtime>/tessera`, where `runtime`
/// (XDG_RUNTIME_DIR) is a folder of this user alone, else /tmp/tessera-<user>.
std::filesystem::path user_secret_folder(const std::optional<std::string>& runtime);

/// The secret that the processes of one user on one host share, and nobody else: 32 bytes in the
/// file "secret" of `folder`, both readable by their owner alone. Made by the first call; the same
/// from then on, also where several processes make it at once. Throws ConfigError where the folder
/// or the file is somebody else's, or others may read it.
std::string user_secret(const std::filesystem::path& folder);

}  // namespace tessera
