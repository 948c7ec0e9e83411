#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "tessera/types.hpp"

namespace tessera {

/// A value of a JSON file and where it stands, for errors:
/// "dev.json: data[3].paragraphs[0].qas[2] has no \"question\"". A part refers to the whole that it
/// came from, which outlives it. What is asked for and is not there is a ConfigError.
class JsonPlace {
 public:
  JsonPlace(const nlohmann::json& value, std::string_view file) : value_(value), name_(file) {}

  /// The field of an object.
  JsonPlace at(std::string_view field) const;
  bool has(std::string_view field) const;
  /// The element of an array.
  JsonPlace at(std::size_t index) const;
  /// Elements of an array.
  std::size_t size() const;
  const std::string& text() const;
  bool truth() const;
  /// A number that is 0 or more.
  u64 count() const;
  /// "dev.json: data[3].answers"
  std::string place() const;

 private:
  JsonPlace(const nlohmann::json& value, const JsonPlace& whole, std::string_view name, i64 index)
      : value_(value), whole_(&whole), name_(name), index_(index) {}
  [[noreturn]] void refuse(std::string_view wanted) const;

  const nlohmann::json& value_;
  const JsonPlace* whole_ = nullptr;
  std::string_view name_;  // of the file, or of the field
  i64 index_ = -1;         // of the element
};

}  // namespace tessera
