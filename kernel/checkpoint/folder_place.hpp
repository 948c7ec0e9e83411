#pragma once
#include <filesystem>
#include <string>

namespace tessera {

/// Why `path` is no folder and none can be made there: a file or a link that leads nowhere is in
/// the way. "/a/b is a link to c, which does not exist; make that folder, or remove the link".
/// Empty where nothing is; what cannot be looked at fails where it is made.
std::string why_no_folder(const std::filesystem::path& path);

/// Makes the folder, and those above it. Throws Error with what is in the way, or why the system
/// refuses.
void make_folder(const std::filesystem::path& path);

}  // namespace tessera
