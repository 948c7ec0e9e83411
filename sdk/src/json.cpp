#include "tessera/json.hpp"

#include <nlohmann/json.hpp>

#include <utility>

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

std::string Json::text() const {
  return state_->value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace tessera
