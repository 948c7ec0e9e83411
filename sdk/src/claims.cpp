#include "tessera/io/claims.hpp"

#include <fmt/format.h>

#include <optional>
#include <utility>
#include <vector>

#include "tessera/error.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

namespace {

std::string written(const std::string& key, const Value& value) {
  return fmt::format("{} = {}", written_plain(key), written_plain(value.text()));
}

std::optional<double> number_in(const Value& value) {
  if (const auto* whole = std::get_if<i64>(&value.data)) return static_cast<double>(*whole);
  if (const auto* real = std::get_if<double>(&value.data)) return *real;
  return std::nullopt;
}

}  // namespace

bool same_value(const Value& a, const Value& b) {
  return a == b || (number_in(a) && number_in(a) == number_in(b));
}

Claims::Claims(std::string file, Settings settings)
    : file_(std::move(file)), settings_(std::move(settings)) {}

const Value* Claims::find(std::string_view key) {
  const auto found = settings_.find(key);
  if (found == settings_.end()) return nullptr;
  known_.insert(found->first);
  return &found->second;
}

Value Claims::get(std::string_view key, const Value& otherwise) {
  const Value* value = find(key);
  return value == nullptr ? otherwise : *value;
}

Value Claims::get(std::string_view key) {
  if (const Value* value = find(key)) return *value;
  fail_config("{} has no {}", file_, quote(key));
}

i64 Claims::integer(std::string_view key) {
  const Value value = get(key);
  if (const auto* number = std::get_if<i64>(&value.data)) return *number;
  fail_config(
      "{}: {} is {}, which is not an integer", file_, quote(key), written_plain(value.text()));
}

bool Claims::flag(std::string_view key, bool otherwise) {
  const Value value = get(key, otherwise);
  if (const auto* flag = std::get_if<bool>(&value.data)) return *flag;
  fail_config(
      "{}: {} is {}, neither true nor false", file_, quote(key), written_plain(value.text()));
}

void Claims::only(std::string_view key, const Value& value) {
  const Value* found = find(key);
  if (found == nullptr || same_value(*found, value)) return;
  fail_config(
      "{} has {}; only {} is supported", file_, written(std::string(key), *found), value.text());
}

template <class F>
void Claims::for_matches(std::string_view pattern, F&& f) {
  if (!pattern.ends_with('*')) {
    if (const auto found = settings_.find(pattern); found != settings_.end()) f(*found);
    return;
  }
  pattern.remove_suffix(1);
  for (auto at = settings_.lower_bound(pattern);
       at != settings_.end() && at->first.starts_with(pattern);
       ++at) {
    f(*at);
  }
}

void Claims::harmless(std::initializer_list<std::string_view> patterns) {
  for (const std::string_view pattern : patterns) {
    for_matches(pattern, [&](const auto& entry) { known_.insert(entry.first); });
  }
}

void Claims::refuse(std::string_view pattern, std::string_view why) {
  for_matches(pattern, [&](const auto& entry) {
    fail_config("{} has {}: {}", file_, written(entry.first, entry.second), why);
  });
}

void Claims::require_known(std::string_view reader) const {
  constexpr std::size_t kMost = 8;
  std::vector<std::string> left;
  for (const auto& [key, value] : settings_) {
    if (!known_.contains(key)) left.push_back(written(key, value));
  }
  if (left.empty()) return;
  const std::size_t more = left.size() > kMost ? left.size() - kMost : 0;
  left.resize(left.size() - more);
  fail_config("{} has {}{}, which {} does not know: remove what changes nothing in the model",
              file_,
              fmt::join(left, ", "),
              more > 0 ? fmt::format(" and {} more", more) : "",
              reader);
}

}  // namespace tessera
