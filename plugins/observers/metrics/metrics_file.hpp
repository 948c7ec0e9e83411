#pragma once
#include <string>
#include <string_view>

#include "tessera/types.hpp"

namespace tessera {

/// An append-only file of lines, each handed to the system before append() returns. Throws Error
/// when the disk does not take it.
class MetricsFile {
 public:
  /// Opens the file and keeps its lines up to and with that of `step`. What comes after the first
  /// later step goes, and so does a last line that a dying process left half-written.
  MetricsFile(std::string path, i64 step);
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;
  ~MetricsFile();

  void append(std::string_view line);
  /// Puts another line in the place of the last one appended.
  void replace_last(std::string_view line);

 private:
  [[noreturn]] void fail_file(std::string_view what) const;
  void cut(i64 bytes);

  std::string path_;
  int fd_;
  i64 end_ = 0, last_line_ = 0;
};

}  // namespace tessera
