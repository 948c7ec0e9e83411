#pragma once
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/types.hpp"

namespace tessera {

/// A value in a tokenizer.json that knows where it stands: errors name "model.vocab". All throw
/// ConfigError. The tree outlives it.
class JsonPart {
 public:
  JsonPart(const nlohmann::json& value, std::string file, std::string path)
      : value_(&value), file_(std::move(file)), path_(std::move(path)) {}

  const nlohmann::json& json() const { return *value_; }
  bool is_null() const { return value_->is_null(); }
  /// For errors: "tokenizer.path: t.json: model.vocab".
  std::string place() const;
  [[noreturn]] void refuse(std::string_view why) const;
  /// `text_of_it "X" is not known`.
  [[noreturn]] void unknown() const;

  /// Of an object, which this must be; null where it has none.
  JsonPart operator[](const char* key) const;
  void require_object() const;
  /// Refuses other keys of the object.
  void only(std::initializer_list<std::string_view> keys) const;
  /// Of an array, which this must be.
  std::vector<JsonPart> elements() const;
  std::string text() const;
  /// A text of one character.
  std::string character() const;
  bool flag() const;
  bool flag(bool otherwise) const;
  /// From 0 to what an i32 holds.
  i64 integer() const;

 private:
  const nlohmann::json* value_;
  std::string file_, path_;
};

}  // namespace tessera
