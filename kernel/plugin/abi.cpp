#include "kernel/plugin/abi.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "tessera/base/abi.hpp"

namespace tessera {
namespace {

using Fields = std::vector<std::pair<std::string, std::string>>;

Fields parse(std::string_view text) {
  Fields fields;
  while (!text.empty()) {
    const std::string_view entry = text.substr(0, text.find(';'));
    text.remove_prefix(std::min(entry.size() + 1, text.size()));
    const auto equals = entry.find('=');
    fields.emplace_back(entry.substr(0, equals),
                        equals == std::string_view::npos ? "" : entry.substr(equals + 1));
  }
  return fields;
}

std::string value_of(const Fields& fields, const std::string& name) {
  for (const auto& [key, value] : fields) {
    if (key == name) return value;
  }
  return "not given";
}

}  // namespace

std::string_view host_abi_stamp() { return TESSERA_ABI_STAMP; }
std::string_view host_abi_fields() { return TESSERA_ABI_FIELDS; }

std::string abi_difference(std::string_view theirs, std::string_view ours) {
  const Fields left = parse(theirs);
  const Fields right = parse(ours);
  std::vector<std::string> differences;
  const auto compare = [&](const std::string& name) {
    const std::string a = value_of(left, name);
    const std::string b = value_of(right, name);
    if (a != b) differences.push_back(fmt::format("{} ({} vs {})", name, a, b));
  };
  for (const auto& [name, value] : right) compare(name);
  for (const auto& [name, value] : left) {
    if (value_of(right, name) == "not given") compare(name);
  }
  return fmt::format("{}", fmt::join(differences, ", "));
}

}  // namespace tessera
