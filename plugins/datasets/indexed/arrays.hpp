#pragma once
#include <array>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/types.hpp"

namespace tessera {

// Arrays in a file that is mapped (kept_bytes.hpp): a name of eight characters, the number of
// elements of each, then each, from a multiple of 8 bytes on.

constexpr std::size_t whole_words(std::size_t bytes) { return (bytes + 7) / 8 * 8; }

template <class... T>
std::string join_arrays(std::string_view name, const std::vector<T>&... arrays) {
  std::string bytes(name);
  const std::array<u64, sizeof...(T)> counts = {arrays.size()...};
  bytes.append(reinterpret_cast<const char*>(counts.data()), sizeof counts);
  const auto append = [&bytes](const auto& values) {
    bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(values[0]));
    bytes.resize(whole_words(bytes.size()));
  };
  (append(arrays), ...);
  return bytes;
}

/// Where they are in `bytes`, which are aligned to 8; false: those are no such arrays.
template <class... T>
bool view_arrays(std::string_view bytes, std::string_view name, std::span<const T>&... arrays) {
  std::array<u64, sizeof...(T)> counts{};
  std::size_t at = name.size() + sizeof counts;
  if (bytes.size() < at || !bytes.starts_with(name)) return false;
  std::memcpy(counts.data(), bytes.data() + name.size(), sizeof counts);
  std::size_t number = 0;
  const auto view = [&]<class E>(std::span<const E>& array) {
    const u64 count = counts[number++];
    if (count > (bytes.size() - at) / sizeof(E)) return false;
    array = {reinterpret_cast<const E*>(bytes.data() + at), count};
    at = whole_words(at + count * sizeof(E));
    return at <= bytes.size();
  };
  return (view(arrays) && ...) && at == bytes.size();
}

}  // namespace tessera
