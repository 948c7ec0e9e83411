#include "metrics_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <utility>

#include "tessera/error.hpp"
#include "tessera/log.hpp"
#include "tessera/observer.hpp"

namespace tessera {
namespace {

constexpr std::size_t kMostWaiting = 64UL << 20;

/// The step of a line that this plugin wrote, also where an editor made its end "\r\n"; nothing for
/// any other.
std::optional<i64> step_of(std::string_view line) {
  constexpr std::string_view kStart = "{\"step\":";
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (!line.starts_with(kStart) || !line.ends_with('}')) return std::nullopt;
  i64 step = 0;
  const auto parsed = std::from_chars(line.data() + kStart.size(), line.data() + line.size(), step);
  if (parsed.ec != std::errc() || (*parsed.ptr != ',' && *parsed.ptr != '}')) return std::nullopt;
  return step;
}

/// What a run that goes on after a step finds in its file.
struct Found {
  i64 kept = 0;          // bytes up to the end of the last line whose step is not beyond
  bool open = false;     // that line lacks its newline
  i64 damaged_kept = 0;  // lines before that end
  i64 beyond_kept = 0;   // lines before that end whose step is beyond: damaged, or not in order
  i64 damaged_cut = 0;   // whole lines after that end
  i64 beyond_cut = 0;    // lines after that end, of later steps

  /// The cut takes more than the lines that the run writes again.
  bool loses() const { return beyond_kept + damaged_cut > 0; }
};

Found look_through(std::istream& in, const std::string& path, i64 last) {
  Found found;
  i64 bytes = 0, number = 0, first_damaged = 0, damaged = 0, beyond = 0;
  bool half = false;
  for (std::string line; std::getline(in, line);) {
    ++number;
    const bool open = in.eof();
    bytes += static_cast<i64>(line.size()) + (open ? 0 : 1);
    const auto step = step_of(line);
    if (!step && open) {
      half = true;
    } else if (!step) {
      if (damaged++ == 0) first_damaged = number;
    } else if (*step > last) {
      ++beyond;
    } else {
      found = {.kept = bytes, .open = open, .damaged_kept = damaged, .beyond_kept = beyond};
    }
  }
  if (in.bad()) fail("metrics: cannot read \"{}\"", path);
  found.damaged_cut = damaged - found.damaged_kept;
  found.beyond_cut = beyond - found.beyond_kept;
  if (found.damaged_kept > 0) {
    log_warning("{}: {} damaged line(s), the first is line {}; they stay as they are",
                path,
                found.damaged_kept,
                first_damaged);
  }
  if (found.loses()) {
    log_warning(
        "{}: left out are {} line(s) of steps beyond {} among earlier ones, and {} damaged "
        "line(s) at the end",
        path,
        found.beyond_kept,
        last,
        found.damaged_cut);
  }
  if (half) log_warning("{}: the last line, half-written, is left out", path);
  return found;
}

}  // namespace

MetricsFile::MetricsFile(std::string path, i64 step, bool changed) : path_(std::move(path)) {
  if (step == 0) set_aside(path_);
  std::error_code error;  // a pipe would wait for who reads it
  const std::filesystem::file_status status = std::filesystem::symlink_status(path_, error);
  if (is_symlink(status)) {
    fail("metrics: \"{}\" is a symbolic link, which is not followed; remove it", path_);
  }
  if (exists(status) && !is_regular_file(status)) fail("metrics: \"{}\" is not a file", path_);
  std::ifstream earlier;
  Found found;
  bool apart = false;
  if (step > 0 && exists(status)) {
    earlier.open(path_, std::ios::binary);
    if (!earlier) fail_file("read");
    found = look_through(earlier, path_, step);
    apart = found.loses() || (changed && found.beyond_cut > 0);
    if (apart) set_aside(path_);  // `earlier` goes on reading the file under its new name
  }
  file_ = open_output(path_, O_RDWR);
  if (!file_) fail_file("open");
  cut(apart ? 0 : found.kept);
  if (apart) {
    copy(earlier, found.kept, step);
  } else if (found.open) {
    waiting_ = "\n";
  }
  last_line_ = end_ + static_cast<i64>(waiting_.size());
}

void MetricsFile::append(std::string_view line) {
  last_line_ = end_ + static_cast<i64>(waiting_.size());
  waiting_ += line;
  waiting_ += '\n';
  if (write_waiting()) {
    warned_ = false;
    return;
  }
  if (waiting_.size() > kMostWaiting) fail_file("write");
  if (warned_) return;
  warned_ = true;
  log_warning("metrics: cannot write \"{}\": {}; lines wait in memory and are tried again",
              path_,
              std::strerror(errno));
}

void MetricsFile::replace_last(std::string_view line) {
  if (last_line_ >= end_) {
    waiting_.resize(static_cast<std::size_t>(last_line_ - end_));
  } else {
    if (is_there()) cut(last_line_);
    waiting_.clear();
  }
  append(line);
}

void MetricsFile::sync() {
  if (!write_waiting()) fail_file("write");
  if (::fsync(file_.get()) != 0 && errno != EINVAL)
    fail_file("sync");  // EINVAL: it is no file on a disk
}

bool MetricsFile::is_there() const {
  struct stat mine {};
  struct stat there {};
  return ::fstat(file_.get(), &mine) == 0 && ::stat(path_.c_str(), &there) == 0 &&
         mine.st_ino == there.st_ino && mine.st_dev == there.st_dev && there.st_size >= end_;
}

bool MetricsFile::open_again() {
  std::error_code ignored;  // opening the file says why
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), ignored);
  Descriptor opened = open_output(path_, O_RDWR);
  struct stat status {};
  if (!opened || ::fstat(opened.get(), &status) != 0) return false;
  file_ = std::move(opened);
  last_line_ = std::max<i64>(last_line_ - end_, 0);
  end_ = status.st_size;
  char last = '\n';
  if (end_ > 0 && ::pread(file_.get(), &last, 1, end_ - 1) == 1 && last != '\n') {
    waiting_.insert(0, "\n");
    ++last_line_;
  }
  last_line_ += end_;
  log_warning(
      "metrics: \"{}\" was {} while the run goes on: lines go {} from now on, and earlier ones may "
      "be missing there",
      path_,
      end_ == 0 ? "removed or emptied" : "replaced or cut short",
      end_ == 0 ? "into a new one" : "on at its end");
  return true;
}

bool MetricsFile::write_waiting() {
  if (!waiting_.empty() && !is_there() && !open_again()) return false;
  while (!waiting_.empty()) {
    const ssize_t wrote = ::pwrite(file_.get(), waiting_.data(), waiting_.size(), end_);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return false;
    waiting_.erase(0, static_cast<std::size_t>(wrote));
    end_ += wrote;
  }
  return true;
}

void MetricsFile::copy(std::istream& earlier, i64 bytes, i64 last) {
  earlier.clear();
  earlier.seekg(0);
  for (std::string line; bytes > 0 && std::getline(earlier, line);) {
    bytes -= static_cast<i64>(line.size()) + 1;
    const auto step = step_of(line);
    if (!step || *step <= last) append(line);
  }
  if (earlier.bad()) fail_file("read");
}

void MetricsFile::cut(i64 bytes) {
  if (::ftruncate(file_.get(), bytes) != 0) fail_file("cut back");
  end_ = bytes;
}

void MetricsFile::fail_file(std::string_view what) const {
  fail("metrics: cannot {} \"{}\": {}", what, path_, SystemError());
}

}  // namespace tessera
