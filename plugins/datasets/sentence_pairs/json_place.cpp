#include "json_place.hpp"

#include "tessera/error.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

std::string JsonPlace::place() const {
  if (whole_ == nullptr) return std::string(name_);
  std::string text = whole_->place();
  if (index_ >= 0) return text + fmt::format("[{}]", index_);
  text += whole_->whole_ == nullptr ? ": " : ".";
  return text.append(name_);
}

void JsonPlace::refuse(std::string_view wanted) const {
  const std::string found =
      value_.is_structured() ? fmt::format("an {}", value_.type_name()) : value_.dump();
  fail_config("{} is {}, and {} is wanted", place(), written_plain(found), wanted);
}

bool JsonPlace::has(std::string_view field) const {
  if (!value_.is_object()) refuse("an object");
  return value_.contains(field);
}

JsonPlace JsonPlace::at(std::string_view field) const {
  if (!has(field)) fail_config("{} has no {}", place(), quote(field));
  return {value_.find(field).value(), *this, field, -1};
}

JsonPlace JsonPlace::at(std::size_t index) const {
  return {value_.at(index), *this, {}, static_cast<i64>(index)};
}

std::size_t JsonPlace::size() const {
  if (!value_.is_array()) refuse("an array");
  return value_.size();
}

const std::string& JsonPlace::text() const {
  if (!value_.is_string()) refuse("a text");
  return value_.get_ref<const std::string&>();
}

bool JsonPlace::truth() const {
  if (!value_.is_boolean()) refuse("true or false");
  return value_.get<bool>();
}

u64 JsonPlace::count() const {
  if (!value_.is_number_unsigned()) refuse("a number from 0 on");
  return value_.get<u64>();
}

}  // namespace tessera
