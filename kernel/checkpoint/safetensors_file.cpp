#include "kernel/checkpoint/safetensors_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "kernel/checkpoint/disk.hpp"
#include "tessera/error.hpp"

namespace tessera {

i64 write_safetensors(const std::filesystem::path& file,
                      std::vector<SafetensorsEntry> entries,
                      const std::function<std::span<const std::byte>(std::size_t)>& bytes_of) {
  i64 end = 0;
  for (SafetensorsEntry& entry : entries) {
    i64 bytes = dtype_size(parse_dtype(entry.dtype));
    for (const i64 size : entry.shape) bytes *= size;
    entry.begin = end;
    entry.end = end += bytes;
  }
  const std::string header = safetensors_header(entries);
  const u64 length = header.size();  // little endian, as all machines that this runs on
  OutputFile out(file);
  out.write(std::as_bytes(std::span(&length, 1)));
  out.write(std::as_bytes(std::span(header)));
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto bytes = bytes_of(i);
    require(static_cast<i64>(bytes.size()) == entries[i].end - entries[i].begin,
            "{}: tensor \"{}\" has {} bytes, expected {}",
            file.string(),
            entries[i].key,
            bytes.size(),
            entries[i].end - entries[i].begin);
    out.write(bytes);
  }
  out.sync();
  return static_cast<i64>(sizeof(length) + header.size()) + end;
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& file)
    : name_(file.string()), fd_(open_file(file)) {
  try {
    struct stat status {};
    if (::fstat(fd_, &status) != 0) fail_file("inspect", file);
    size_ = status.st_size;
    read_header();
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

SafetensorsFile::~SafetensorsFile() { ::close(fd_); }

void SafetensorsFile::read_header() {
  u64 length = 0;
  require(size_ >= static_cast<i64>(sizeof(length)), "{} is damaged: it is too short", name_);
  read_at(0, std::as_writable_bytes(std::span(&length, 1)));
  require(length <= static_cast<u64>(size_) - sizeof(length),
          "{} is damaged: its header is longer than the file",
          name_);
  std::string header(length, ' ');
  read_at(sizeof(length), std::as_writable_bytes(std::span(header)));
  data_begin_ = static_cast<i64>(sizeof(length) + length);
  entries_ = parse_safetensors_header(header, name_);
}

void SafetensorsFile::read_at(i64 offset, std::span<std::byte> to) const {
  while (!to.empty()) {
    const ssize_t count = ::pread(fd_, to.data(), to.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_file("read", name_);
    require(count > 0, "{} is damaged: it ended while it was read", name_);
    to = to.subspan(static_cast<std::size_t>(count));
    offset += count;
  }
}

const SafetensorsEntry& SafetensorsFile::entry(const std::string& key) const {
  const auto found = std::ranges::find(entries_, key, &SafetensorsEntry::key);
  require(found != entries_.end(), "{} has no tensor \"{}\"", name_, key);
  return *found;
}

std::vector<std::byte> SafetensorsFile::read(const SafetensorsEntry& entry) const {
  require(entry.begin >= 0 && entry.begin <= entry.end && entry.end <= size_ - data_begin_,
          "{} is damaged: tensor \"{}\" lies beyond its end",
          name_,
          entry.key);
  std::vector<std::byte> bytes(static_cast<std::size_t>(entry.end - entry.begin));
  read_at(data_begin_ + entry.begin, bytes);
  return bytes;
}

}  // namespace tessera
