#include "json_part.hpp"

#include <algorithm>

#include "tessera/error.hpp"
#include "tessera/io/utf8.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

std::string JsonPart::place() const {
  return fmt::format("tokenizer.path: {}: {}", file_, written_plain(path_));
}

void JsonPart::refuse(std::string_view why) const { fail_config("{} {}", place(), why); }

void JsonPart::unknown() const {
  fail_config("{} {} is not known", place(), written_plain(value_->dump()));
}

void JsonPart::require_object() const {
  if (value_->is_null()) refuse("is missing");
  if (!value_->is_object()) refuse(fmt::format("is a JSON {}, not an object", value_->type_name()));
}

JsonPart JsonPart::operator[](const char* key) const {
  static const nlohmann::json kNull;
  require_object();
  const auto found = value_->find(key);
  return {found == value_->end() ? kNull : *found,
          file_,
          path_.empty() ? std::string(key) : path_ + "." + key};
}

void JsonPart::only(std::initializer_list<std::string_view> keys) const {
  require_object();
  for (const auto& [key, value] : value_->items()) {
    if (std::ranges::find(keys, key) == keys.end()) (*this)[key.c_str()].unknown();
  }
}

std::vector<JsonPart> JsonPart::elements() const {
  if (value_->is_null()) refuse("is missing");
  if (!value_->is_array()) refuse(fmt::format("is a JSON {}, not an array", value_->type_name()));
  std::vector<JsonPart> parts;
  for (const nlohmann::json& element : *value_) {
    parts.emplace_back(element, file_, fmt::format("{}[{}]", path_, parts.size()));
  }
  return parts;
}

std::string JsonPart::text() const {
  if (value_->is_null()) refuse("is missing");
  if (!value_->is_string()) refuse(fmt::format("is a JSON {}, not a text", value_->type_name()));
  return value_->get<std::string>();
}

std::string JsonPart::character() const {
  std::string character = text();
  if (character.empty() || next_character(character).size() != character.size()) {
    refuse(fmt::format("{} is not one character", quote(character)));
  }
  return character;
}

bool JsonPart::flag() const {
  if (value_->is_null()) refuse("is missing");
  if (!value_->is_boolean()) {
    refuse(fmt::format("is a JSON {}, not true or false", value_->type_name()));
  }
  return value_->get<bool>();
}

bool JsonPart::flag(bool otherwise) const { return value_->is_null() ? otherwise : flag(); }

i64 JsonPart::integer() const {
  if (value_->is_null()) refuse("is missing");
  if (!value_->is_number_unsigned() || value_->get<u64>() > static_cast<u64>(INT32_MAX)) {
    refuse(
        fmt::format("{} is not a number from 0 to {}", written_plain(value_->dump()), INT32_MAX));
  }
  return value_->get<i64>();
}

}  // namespace tessera
