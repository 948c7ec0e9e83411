#include "tessera/io/json.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "tessera/io/utf8.hpp"

namespace tessera {

struct Json::State {
  nlohmann::ordered_json value;  // its numbers that are not finite are written as null
};

Json::Json() : state_(std::make_unique<State>(State{nlohmann::ordered_json::object()})) {}
Json::Json(double value) : state_(std::make_unique<State>(State{value})) {}
Json::Json(i64 value) : state_(std::make_unique<State>(State{value})) {}
Json::Json(int value) : state_(std::make_unique<State>(State{value})) {}
Json::Json(bool value) : state_(std::make_unique<State>(State{value})) {}
Json::Json(std::string_view value) : state_(std::make_unique<State>(State{value})) {}
Json::Json(const std::string& value) : Json(std::string_view(value)) {}
Json::Json(const char* value) : Json(std::string_view(value)) {}

Json Json::array() {
  Json made;
  made.state_->value = nlohmann::ordered_json::array();
  return made;
}

Json::Json(const Json& other) : state_(std::make_unique<State>(*other.state_)) {}
Json::Json(Json&& other) noexcept = default;
Json& Json::operator=(Json other) noexcept {
  state_ = std::move(other.state_);
  return *this;
}
Json::~Json() = default;

Json& Json::add(std::string_view key, const Json& value) {
  state_->value[std::string(key)] = value.state_->value;
  return *this;
}

Json& Json::push(const Json& value) {
  state_->value.push_back(value.state_->value);
  return *this;
}

// Output that a program reads may be looked at in a terminal, too.
std::string Json::text() const {
  const std::string written =
      state_->value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  std::string out;
  for (std::size_t at = 0; at < written.size();) {
    const std::string_view character = next_character(std::string_view(written).substr(at));
    out += acts_on_terminal(character) ? nlohmann::json(character).dump(-1, ' ', true).substr(1, 6)
                                       : std::string(character);
    at += character.size();
  }
  return out;
}

}  // namespace tessera
