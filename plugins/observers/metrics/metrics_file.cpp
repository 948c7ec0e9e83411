#include "metrics_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <optional>

#include "tessera/error.hpp"

namespace tessera {
namespace {

/// The step of a line that this plugin wrote; nothing for any other.
std::optional<i64> step_of(std::string_view line) {
  constexpr std::string_view kStart = "{\"step\":";
  if (!line.starts_with(kStart) || line.back() != '}') return std::nullopt;
  i64 step = 0;
  const auto parsed = std::from_chars(line.data() + kStart.size(), line.data() + line.size(), step);
  if (parsed.ec != std::errc()) return std::nullopt;
  return step;
}

/// Bytes of the whole lines from the start whose step is not beyond `last`.
i64 bytes_until(const std::string& path, i64 last) {
  std::ifstream in(path, std::ios::binary);
  i64 bytes = 0;
  for (std::string line; std::getline(in, line) && !in.eof();) {
    const auto step = step_of(line);
    if (!step || *step > last) break;
    bytes += static_cast<i64>(line.size()) + 1;
  }
  return bytes;
}

}  // namespace

MetricsFile::MetricsFile(std::string path, i64 step)
    : path_(std::move(path)), fd_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644)) {
  if (fd_ < 0) fail_file("open");
  if (step > 0) end_ = last_line_ = bytes_until(path_, step);
  cut(end_);
}

MetricsFile::~MetricsFile() {
  if (fd_ >= 0) ::close(fd_);
}

void MetricsFile::append(std::string_view line) {
  last_line_ = end_;
  std::string text(line);
  text += '\n';
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t wrote = ::pwrite(fd_, text.data() + done, text.size() - done, end_);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) fail_file("write");
    done += static_cast<std::size_t>(wrote);
    end_ += wrote;
  }
}

void MetricsFile::replace_last(std::string_view line) {
  cut(last_line_);
  append(line);
}

void MetricsFile::cut(i64 bytes) {
  if (::ftruncate(fd_, bytes) != 0) fail_file("cut back");
  end_ = bytes;
}

void MetricsFile::fail_file(std::string_view what) const {
  fail("metrics: cannot {} \"{}\": {}", what, path_, std::strerror(errno));
}

}  // namespace tessera
