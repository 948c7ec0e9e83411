#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "tessera/types.hpp"

namespace tessera {

/// "<folder>/step-120"
std::filesystem::path step_folder(const std::filesystem::path& folder, i64 step);
/// Complete checkpoints below a folder (those with an index), the newest first.
std::vector<std::filesystem::path> complete_steps(const std::filesystem::path& folder);
/// Removes all but the newest `keep` complete ones.
void remove_old(const std::filesystem::path& folder, i64 keep);
/// Renames `temporary` to `target` and syncs the parent; an older `target` makes way.
void replace_folder(const std::filesystem::path& temporary, const std::filesystem::path& target);
/// Writes a text file and syncs it; throws Error naming the file and why.
void write_synced(const std::filesystem::path& file, const std::string& text);

std::string join_lines(const std::vector<std::filesystem::path>& lines);
std::vector<std::string> split_lines(const std::string& text);

}  // namespace tessera
