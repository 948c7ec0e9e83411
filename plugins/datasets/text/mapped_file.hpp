#pragma once
#include <string>
#include <string_view>
#include <utility>

namespace tessera {

/// A file mapped for reading: its pages are shared by all ranks of a host and loaded when touched.
class MappedFile {
 public:
  /// Throws ConfigError when the file is missing, unreadable or not a file.
  explicit MappedFile(std::string path);
  MappedFile(MappedFile&& other) noexcept
      : path_(std::move(other.path_)), text_(std::exchange(other.text_, {})) {}
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  const std::string& path() const { return path_; }
  std::string_view text() const { return text_; }

 private:
  std::string path_;
  std::string_view text_;  // empty for an empty file, which cannot be mapped
};

}  // namespace tessera
