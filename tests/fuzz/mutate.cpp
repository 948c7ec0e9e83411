#include "fuzz/mutate.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>

namespace tessera::fuzz {

namespace {

constexpr std::size_t kLongest = 4096;

constexpr std::uint64_t kIntegers[] = {0,
                                       1,
                                       7,
                                       8,
                                       0x7f,
                                       0x80,
                                       0xff,
                                       0x7fff,
                                       0x8000,
                                       0xffff,
                                       0x7fffffff,
                                       0x80000000,
                                       0xffffffff,
                                       0x7fffffffffffffff,
                                       0x8000000000000000,
                                       0xffffffffffffffff};
constexpr const char* kNumbers[] = {"0",
                                    "-1",
                                    "1e999",
                                    "1e300",
                                    "-0.0",
                                    "nan",
                                    "9223372036854775807",
                                    "-9223372036854775808",
                                    "9223372036854775808",
                                    "18446744073709551615",
                                    "4611686018427387904",
                                    "99999999999999999999999"};

}  // namespace

std::string Mutator::mutate(std::string text,
                            const std::string& other,
                            const std::vector<std::string>& tokens) {
  const std::size_t changes = std::size_t{1} << below(4);
  for (std::size_t i = 0; i < changes; ++i) change(text, other, tokens);
  text.resize(std::min(text.size(), kLongest));
  return text;
}

void Mutator::change(std::string& text,
                     const std::string& other,
                     const std::vector<std::string>& tokens) {
  const std::size_t at = below(text.size()), length = below(std::min<std::size_t>(text.size(), 64));
  switch (below(9)) {
    case 0:
      if (!text.empty()) text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
      break;
    case 1:
      if (!text.empty()) text[at] = static_cast<char>(random_());
      break;
    case 2:
      put_integer(text);
      break;
    case 3:
      put_number(text);
      break;
    case 4:
      text.erase(at, length);
      break;
    case 5:
      text.insert(below(text.size() + 1), text.substr(at, length));
      break;
    case 6:
      text = text.substr(0, at) + other.substr(below(other.size()));
      break;
    case 7:
      if (!tokens.empty()) text.insert(at, tokens[below(tokens.size())]);
      break;
    default:
      text.insert(at, std::string(length, text.empty() ? 'a' : text[at]));
  }
}

// An integer of the wire, in one to eight bytes.
void Mutator::put_integer(std::string& text) {
  const std::size_t bytes = std::size_t{1} << below(4);
  if (text.size() < bytes) return;
  const std::uint64_t value = kIntegers[below(std::size(kIntegers))];
  std::memcpy(text.data() + below(text.size() - bytes + 1), &value, bytes);
}

// A number of a text, in place of one that is there.
void Mutator::put_number(std::string& text) {
  const std::size_t from = below(text.size());
  const std::size_t begin = text.find_first_of("0123456789", from);
  if (begin == std::string::npos) return;
  const std::size_t end = text.find_first_not_of("0123456789", begin);
  const std::size_t digits = end == std::string::npos ? text.size() - begin : end - begin;
  text.replace(begin, digits, kNumbers[below(std::size(kNumbers))]);
}

}  // namespace tessera::fuzz
