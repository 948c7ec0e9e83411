#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernel/checkpoint/disk.hpp"
#include "kernel/checkpoint/index.hpp"

namespace tessera {

/// Takes the next bytes of a file.
using ByteSink = std::function<void(std::span<const std::byte>)>;

/// A new safetensors file. Throws Error naming the file and why (a full disk); the file is then
/// incomplete.
class SafetensorsWriter {
 public:
  /// Writes the header. `metadata` are texts by name.
  SafetensorsWriter(const std::filesystem::path& file,
                    std::vector<SafetensorsEntry> entries,
                    const std::map<std::string, std::string>& metadata = {});
  /// Writes the contents of the next entry: `contents` hands them to its sink, in as many pieces as
  /// it likes.
  void next(const std::function<void(const ByteSink&)>& contents);
  /// Syncs the file, after the last entry. Returns its size.
  i64 finish();

 private:
  OutputFile out_;
  std::string name_;
  std::vector<SafetensorsEntry> entries_;
  std::size_t next_ = 0;
  i64 size_ = 0;
};

/// A safetensors file, open for reading. Throws Error naming the file when it is damaged. Reads
/// instead of mapping, so that a failing disk is an error and not a signal.
class SafetensorsFile {
 public:
  /// `bytes`: how large it must be, where that is known.
  explicit SafetensorsFile(const std::filesystem::path& file, std::optional<i64> bytes = {});
  ~SafetensorsFile();
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;
  i64 size() const { return size_; }
  const std::vector<SafetensorsEntry>& entries() const { return entries_; }
  /// Texts by name that the writer left.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// Throws Error naming file and tensor when it is not there.
  const SafetensorsEntry& entry(const std::string& key) const;
  std::vector<std::byte> read(const SafetensorsEntry& entry) const;
  /// Reads a part of it: as many bytes as `to` has, from byte `begin` of the entry on.
  void read(const SafetensorsEntry& entry, i64 begin, std::span<std::byte> to) const;

 private:
  void read_header();
  void read_at(i64 offset, std::span<std::byte> to) const;
  std::string name_;
  int fd_ = -1;
  i64 size_ = 0, data_begin_ = 0;
  std::vector<SafetensorsEntry> entries_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace tessera
