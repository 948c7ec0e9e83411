#pragma once
#include <ctime>
#include <string>
#include <string_view>

#include "tessera/base/api.hpp"
#include "tessera/types.hpp"

namespace tessera {

/// A file of a dataset, mapped for reading: its pages are shared by all ranks of a host and loaded
/// when they are touched. It keeps the file's size, times and inode as they were, and a hash of 16
/// pieces of 4 KiB (of a shorter file, all of it), so that a run notices a change (Dataset::files).
/// It misses a change between those pieces whose author puts the file's time back. Where the file
/// is cut short, a read of what is gone ends the process with a message that names the file. Reads
/// may come from several threads.
class TESSERA_API DataFile {
 public:
  /// `key` is the one of the configuration that names the file: "data.path". Throws ConfigError,
  /// which begins with it, where the file is missing, unreadable or no regular file.
  explicit DataFile(std::string path, std::string_view key = "data.path");
  DataFile(DataFile&& other) noexcept;
  DataFile(const DataFile&) = delete;
  DataFile& operator=(const DataFile&) = delete;
  ~DataFile();

  const std::string& path() const { return path_; }
  /// The bytes of the file; valid while this lives.
  std::string_view text() const { return text_; }
  /// What has changed: "it had 300 bytes and has 0"; empty: nothing. Looks at the disk.
  std::string change() const;
  /// The path of the file that is mapped at `address`; nullptr: none is. For signal handlers.
  static const char* mapped_at(const void* address) noexcept;

 private:
  struct Mapping;  // what mapped_at() looks through
  struct Identity {
    i64 bytes = 0;
    u64 inode = 0;
    timespec written{}, changed{};  // the contents; anything, rights and names too
    u64 sample = 0;                 // of the contents
  };
  std::string path_;
  std::string_view text_;  // empty for an empty file, which cannot be mapped
  Identity identity_;
  Mapping* mapping_ = nullptr;
};

}  // namespace tessera
