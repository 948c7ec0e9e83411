#pragma once
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kernel/checkpoint/index.hpp"

namespace tessera {

/// Writes a safetensors file and syncs it. `bytes_of(i)` gives the contents of entry i, asked for
/// once, in order. Throws Error naming the file and why (a full disk); the file is then incomplete.
i64 write_safetensors(const std::filesystem::path& file,
                      std::vector<SafetensorsEntry> entries,
                      const std::function<std::span<const std::byte>(std::size_t)>& bytes_of);

/// A safetensors file, open for reading. Throws Error naming the file when it is damaged. Reads
/// instead of mapping, so that a failing disk is an error and not a signal.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& file);
  ~SafetensorsFile();
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;
  i64 size() const { return size_; }
  const std::vector<SafetensorsEntry>& entries() const { return entries_; }
  /// Throws Error naming file and tensor when it is not there.
  const SafetensorsEntry& entry(const std::string& key) const;
  std::vector<std::byte> read(const SafetensorsEntry& entry) const;

 private:
  void read_header();
  void read_at(i64 offset, std::span<std::byte> to) const;
  std::string name_;
  int fd_ = -1;
  i64 size_ = 0, data_begin_ = 0;
  std::vector<SafetensorsEntry> entries_;
};

}  // namespace tessera
