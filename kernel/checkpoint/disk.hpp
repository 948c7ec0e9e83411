#pragma once
#include <filesystem>
#include <string>

#include "tessera/io/output_file.hpp"

namespace tessera {

/// Writes a text file and syncs it.
void write_synced(const std::filesystem::path& file, const std::string& text);
/// Syncs a folder: the names in it.
void sync_folder(const std::filesystem::path& folder);
/// Opens a file for reading; the caller closes the descriptor. Throws Error naming it when that
/// fails, or when it is a pipe or the like, which may block without end.
int open_file(const std::filesystem::path& file);
/// Throws Error naming the file when it cannot be read.
std::string read_text_file(const std::filesystem::path& file);

}  // namespace tessera
