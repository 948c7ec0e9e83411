#pragma once
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

#include "tessera/types.hpp"

namespace tessera {

/// A new file. What goes wrong (a full disk) is an Error that names the file and why.
class OutputFile {
 public:
  explicit OutputFile(const std::filesystem::path& file);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  void write(std::span<const std::byte> bytes);
  /// Until this returns, nothing is certain to be on the disk.
  void sync();

 private:
  std::filesystem::path file_;
  int fd_ = -1;
};

/// Writes a text file and syncs it.
void write_synced(const std::filesystem::path& file, const std::string& text);
/// Syncs a folder: the names in it.
void sync_folder(const std::filesystem::path& folder);
/// Opens a file for reading; the caller closes the descriptor. Throws Error naming it when that
/// fails or when it is no file but a pipe, say, which would be waited for without end.
int open_file(const std::filesystem::path& file);
/// Throws Error naming the file when it cannot be read.
std::string read_text_file(const std::filesystem::path& file);

/// Throws Error "cannot <what> <file>: <errno in words>".
[[noreturn]] void fail_file(std::string_view what, const std::filesystem::path& file);

}  // namespace tessera
