#include "event_file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <chrono>
#include <cstring>

namespace tessera {

namespace {

constexpr std::array<u32, 256> kTable = [] {
  std::array<u32, 256> table{};
  for (u32 i = 0; i < 256; ++i) {
    u32 rest = i;
    for (int bit = 0; bit < 8; ++bit) rest = rest >> 1 ^ ((rest & 1) != 0 ? 0x82F63B78 : 0);
    table[i] = rest;
  }
  return table;
}();

// As the format has it: so that a checksum of bytes that hold checksums is worth something.
u32 masked(u32 crc) { return std::rotr(crc, 15) + 0xA282EAD8; }

template <class T>
std::string little(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

// Wire types of Protocol Buffers.
enum Wire : u8 { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

std::string number(u64 value) {
  std::string text;
  for (; value >= 0x80; value >>= 7) text += static_cast<char>(value | 0x80);
  return text += static_cast<char>(value);
}
std::string key(u32 field, Wire wire) { return number(u64{field} << 3 | wire); }
std::string text_field(u32 field, std::string_view text) {
  return key(field, Wire::bytes) + number(text.size()) + std::string(text);
}

// Fields of `Event`: 1 wall_time, 2 step, 3 file_version, 5 summary, 7 session_log.
std::string event(i64 step, const std::string& rest) {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  return key(1, Wire::fixed64) + little(now.count()) + key(2, Wire::varint) +
         number(static_cast<u64>(step)) + rest;
}

std::filesystem::path new_file(const std::filesystem::path& folder) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(
                           std::chrono::system_clock::now().time_since_epoch())
                           .count();
  for (int n = 0;; ++n) {
    const auto file = folder / fmt::format("events.out.tfevents.{}.{}.{}", seconds, getpid(), n);
    if (!std::filesystem::exists(std::filesystem::symlink_status(file))) return file;
  }
}

}  // namespace

u32 crc32c(std::string_view bytes) {
  u32 crc = ~0U;
  for (const char byte : bytes) crc = crc >> 8 ^ kTable[(crc ^ static_cast<u8>(byte)) & 0xFF];
  return ~crc;
}

EventFile::EventFile(const std::filesystem::path& folder, i64 begin) : file_(new_file(folder)) {
  record(event(0, text_field(3, "brain.Event:2")));
  // SessionLog: 1 status, of which START is 1.
  if (begin > 0) record(event(begin, text_field(7, key(1, Wire::varint) + number(1))));
}

// Summary: 1 value, repeated; Summary.Value: 1 tag, 2 simple_value.
void EventFile::add(i64 step, const Scalars& scalars) {
  std::string summary;
  for (const auto& [tag, value] : scalars) {
    summary += text_field(
        1, text_field(1, tag) + key(2, Wire::fixed32) + little(static_cast<float>(value)));
  }
  record(event(step, text_field(5, summary)));
}

void EventFile::record(const std::string& event) {
  const std::string length = little(u64{event.size()});
  file_.write(length + little(masked(crc32c(length))) + event + little(masked(crc32c(event))));
}

}  // namespace tessera
