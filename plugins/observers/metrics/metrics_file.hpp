#pragma once
#include <istream>
#include <string>
#include <string_view>

#include "tessera/io/output_file.hpp"
#include "tessera/types.hpp"

namespace tessera {

/// An append-only file of lines. A line that the disk does not take is kept in memory and tried
/// again with the next one. Where somebody removes the file, it is made again; where another one
/// stands in its place, or it was cut short, lines go on at its end. All of that is told.
class MetricsFile {
 public:
  /// Opens the file and keeps its lines up to and with that of `step`; 0: sets an earlier file
  /// aside and starts a new one. Lines of later steps go, as the run writes them again, and so does
  /// a last line that a dying process left half-written. Damaged lines before the last line up to
  /// `step` stay, with a warning. Where more would be lost, the file as it was is set aside:
  /// damaged lines behind it, later steps before it, and later steps of a run whose configuration
  /// was another one (`changed`). Throws Error.
  MetricsFile(std::string path, i64 step, bool changed);
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  /// Hands a line to the system. Throws Error only when too many lines wait for the disk.
  void append(std::string_view line);
  /// Puts another line in the place of the last one appended.
  void replace_last(std::string_view line);
  /// All lines are on the disk when it returns. Throws Error when the disk does not take them.
  void sync();

 private:
  [[noreturn]] void fail_file(std::string_view what) const;
  /// Whether the name still leads to the open file, with all that was written.
  bool is_there() const;
  /// Opens what the name leads to now, a new file perhaps; false where that fails (errno).
  bool open_again();
  bool write_waiting();
  /// Appends the lines of the first `bytes` but those of steps beyond `last`.
  void copy(std::istream& earlier, i64 bytes, i64 last);
  void cut(i64 bytes);

  std::string path_;
  Descriptor file_;
  i64 end_ = 0;          // of what is in the file
  i64 last_line_ = 0;    // where the last line begins, in the file or beyond its end
  std::string waiting_;  // what the disk has not taken yet
  bool warned_ = false;
};

}  // namespace tessera
