#include "metrics_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>

#include "tessera/error.hpp"
#include "tessera/log.hpp"
#include "tessera/observer.hpp"

namespace tessera {
namespace {

constexpr std::size_t kMostWaiting = 64UL << 20;

/// The step of a line that this plugin wrote; nothing for any other.
std::optional<i64> step_of(std::string_view line) {
  constexpr std::string_view kStart = "{\"step\":";
  if (!line.starts_with(kStart) || line.back() != '}') return std::nullopt;
  i64 step = 0;
  const auto parsed = std::from_chars(line.data() + kStart.size(), line.data() + line.size(), step);
  if (parsed.ec != std::errc()) return std::nullopt;
  return step;
}

/// Bytes up to the end of the last whole line whose step is not beyond `last`.
i64 bytes_until(const std::string& path, i64 last) {
  std::ifstream in(path, std::ios::binary);
  i64 bytes = 0, kept = 0, number = 0, first_damaged = 0, damaged = 0, damaged_kept = 0;
  for (std::string line; std::getline(in, line) && !in.eof();) {
    ++number;
    bytes += static_cast<i64>(line.size()) + 1;
    const auto step = step_of(line);
    if (!step && damaged++ == 0) first_damaged = number;
    if (step && *step > last) break;
    if (!step) continue;
    kept = bytes;
    damaged_kept = damaged;
  }
  if (damaged_kept > 0) {
    log_warning("{}: {} damaged line(s), the first is line {}; they stay as they are",
                path,
                damaged_kept,
                first_damaged);
  }
  return kept;
}

}  // namespace

MetricsFile::MetricsFile(std::string path, i64 step) : path_(std::move(path)) {
  if (step == 0) set_aside(path_);
  std::error_code error;  // a pipe would wait for who reads it
  const std::filesystem::file_status status = std::filesystem::status(path_, error);
  if (exists(status) && !is_regular_file(status)) fail("metrics: \"{}\" is no file", path_);
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (fd_ < 0) fail_file("open");
  if (step > 0) end_ = last_line_ = bytes_until(path_, step);
  cut(end_);
}

MetricsFile::~MetricsFile() {
  if (fd_ >= 0) ::close(fd_);
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
    cut(last_line_);
    waiting_.clear();
  }
  append(line);
}

void MetricsFile::sync() {
  if (!write_waiting()) fail_file("write");
  if (::fsync(fd_) != 0 && errno != EINVAL) fail_file("sync");  // EINVAL: it is no file on a disk
}

bool MetricsFile::write_waiting() {
  while (!waiting_.empty()) {
    const ssize_t wrote = ::pwrite(fd_, waiting_.data(), waiting_.size(), end_);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return false;
    waiting_.erase(0, static_cast<std::size_t>(wrote));
    end_ += wrote;
  }
  return true;
}

void MetricsFile::cut(i64 bytes) {
  if (::ftruncate(fd_, bytes) != 0) fail_file("cut back");
  end_ = bytes;
}

void MetricsFile::fail_file(std::string_view what) const {
  fail("metrics: cannot {} \"{}\": {}", what, path_, std::strerror(errno));
}

}  // namespace tessera
