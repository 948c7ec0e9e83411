#include "kernel/checkpoint/safetensors_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "kernel/system/read_at.hpp"
#include "tessera/error.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& file,
                                     std::vector<SafetensorsEntry> entries,
                                     const std::map<std::string, std::string>& metadata)
    : out_(file), name_(written_path(file)), entries_(std::move(entries)) {
  i64 end = 0;
  for (SafetensorsEntry& entry : entries_) {
    i64 bytes = dtype_size(parse_dtype(entry.dtype));
    for (const i64 size : entry.shape) bytes *= size;
    entry.begin = end;
    entry.end = end += bytes;
  }
  const std::string header = safetensors_header(entries_, metadata);
  const u64 length = header.size();  // little endian, as all machines that this runs on
  out_.write(std::as_bytes(std::span(&length, 1)));
  out_.write(std::as_bytes(std::span(header)));
  size_ = static_cast<i64>(sizeof(length) + header.size()) + end;
}

void SafetensorsWriter::next(const std::function<void(const ByteSink&)>& contents) {
  const SafetensorsEntry& entry = entries_.at(next_++);
  i64 written = 0;
  contents([&](std::span<const std::byte> bytes) {
    written += static_cast<i64>(bytes.size());
    out_.write(bytes);
  });
  require(written == entry.end - entry.begin,
          "{}: tensor \"{}\" has {} bytes, expected {}",
          name_,
          entry.key,
          written,
          entry.end - entry.begin);
}

i64 SafetensorsWriter::finish() {
  require(next_ == entries_.size(), "{}: not all tensors are written", name_);
  out_.sync();
  return size_;
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& file, std::optional<i64> bytes)
    : name_(written_path(file)), fd_(open_file(file)) {
  try {
    struct stat status {};
    if (::fstat(fd_, &status) != 0) fail_file("inspect", file);
    size_ = status.st_size;
    require(!bytes || size_ == *bytes,
            "{} is damaged: it has {} bytes instead of {}",
            name_,
            size_,
            bytes.value_or(0));
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
  // The limit of the format's own library; enough for millions of tensors.
  constexpr u64 kLongest = 100'000'000;
  require(length <= kLongest,
          "{} is damaged: its header has {} bytes, more than {}",
          name_,
          length,
          kLongest);
  std::string header(length, ' ');
  read_at(sizeof(length), std::as_writable_bytes(std::span(header)));
  data_begin_ = static_cast<i64>(sizeof(length) + length);
  entries_ = parse_safetensors_header(header, name_, &metadata_);
  for (const SafetensorsEntry& entry : entries_) {
    require(entry.begin >= 0 && entry.begin <= entry.end && entry.end <= size_ - data_begin_,
            "{} is damaged: tensor {} lies beyond its end",
            name_,
            quote(entry.key));
  }
  std::ranges::sort(entries_, {}, &SafetensorsEntry::key);
}

void SafetensorsFile::read_at(i64 offset, std::span<std::byte> to) const {
  const ssize_t count = tessera::read_at(fd_, to, static_cast<u64>(offset));
  if (count < 0) fail_file("read", name_);
  require(
      count == static_cast<ssize_t>(to.size()), "{} is damaged: it ended while it was read", name_);
}

const SafetensorsEntry& SafetensorsFile::entry(const std::string& key) const {
  const auto found = std::ranges::lower_bound(entries_, key, {}, &SafetensorsEntry::key);
  require(
      found != entries_.end() && found->key == key, "{} has no tensor {}", name_, quote(key, 1000));
  return *found;
}

std::vector<std::byte> SafetensorsFile::read(const SafetensorsEntry& entry) const {
  std::vector<std::byte> bytes(static_cast<std::size_t>(entry.end - entry.begin));
  read_at(data_begin_ + entry.begin, bytes);
  return bytes;
}

void SafetensorsFile::read(const SafetensorsEntry& entry,
                           i64 begin,
                           std::span<std::byte> to) const {
  const i64 size = entry.end - entry.begin, count = static_cast<i64>(to.size());
  require(begin >= 0 && begin <= size && count <= size - begin,
          "{}: {} bytes from {} on are no part of tensor {}",
          name_,
          count,
          begin,
          quote(entry.key));
  read_at(data_begin_ + entry.begin + begin, to);
}

}  // namespace tessera
