#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "tessera/base/api.hpp"
#include "tessera/types.hpp"

namespace tessera {

/// A JSON value to be written, for files and output that programs read:
///
///     Json().add("step", step).add("loss", loss).text()   {"step":3,"loss":2.5}
///
/// A number reads back as the same double; one that is not finite becomes null. Keys keep their
/// order; a key that is added twice has its last value.
class TESSERA_API Json {
 public:
  Json();                          ///< an object without members
  Json(double value);              // NOLINT(google-explicit-constructor)
  Json(i64 value);                 // NOLINT(google-explicit-constructor)
  Json(int value);                 // NOLINT(google-explicit-constructor)
  Json(bool value);                // NOLINT(google-explicit-constructor)
  Json(std::string_view value);    // NOLINT(google-explicit-constructor)
  Json(const std::string& value);  // NOLINT(google-explicit-constructor)
  Json(const char* value);         // NOLINT(google-explicit-constructor)
  static Json array();
  /// An array of f(element) for each element.
  template <class List, class F>
  static Json array(const List& list, F&& f) {
    Json made = array();
    for (const auto& element : list) made.push(f(element));
    return made;
  }
  template <class List>
  static Json array(const List& list) {
    return array(list, [](const auto& element) { return Json(element); });
  }

  Json(const Json& other);
  Json(Json&& other) noexcept;
  Json& operator=(Json other) noexcept;
  ~Json();

  Json& add(std::string_view key, const Json& value);  ///< to an object
  Json& push(const Json& value);                       ///< to an array
  /// One line of text, without a newline. Bytes that are no UTF-8 become U+FFFD; characters that a
  /// terminal would act on are escaped.
  std::string text() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera
