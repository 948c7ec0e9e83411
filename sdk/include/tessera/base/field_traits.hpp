#pragma once
#include <concepts>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tessera/base/value.hpp"
#include "tessera/error.hpp"

namespace tessera {

enum class FieldType : u8 { boolean, integer, number, string, array, component, tables, variants };

/// A value or a word, usually "auto" (no value). `Auto<i64> ranks;` starts as the word.
template <class T>
using Auto = std::optional<T>;

namespace detail {
TESSERA_API Value::Array array_of(const Value& value);
/// Integers that std::in_range takes, of a member that can be assigned.
template <class M>
concept KeyInteger =
    std::integral<M> && std::same_as<M, std::remove_cv_t<M>> && !std::same_as<M, bool> &&
    !std::same_as<M, char> && !std::same_as<M, wchar_t> && !std::same_as<M, char8_t> &&
    !std::same_as<M, char16_t> && !std::same_as<M, char32_t>;

/// How a member of type M is read and written; empty where no key is of this type.
template <class M>
struct FieldTraits {};
template <>
struct FieldTraits<bool> {
  static constexpr FieldType kType = FieldType::boolean;
  static Value to(bool v) { return v; }
  static bool from(const Value& v) { return std::get<bool>(v.data); }
};
template <KeyInteger M>
struct FieldTraits<M> {
  static constexpr FieldType kType = FieldType::integer;
  static Value to(M v) { return static_cast<i64>(v); }
  static M from(const Value& v) {
    const i64 integer = std::get<i64>(v.data);
    if (!std::in_range<M>(integer)) fail_config("{} is out of range", integer);
    return static_cast<M>(integer);
  }
};
template <>
struct FieldTraits<double> {
  static constexpr FieldType kType = FieldType::number;
  static Value to(double v) { return v; }
  static double from(const Value& v) { return std::get<double>(v.data); }
};
template <>
struct FieldTraits<std::string> {
  static constexpr FieldType kType = FieldType::string;
  static Value to(const std::string& v) { return v; }
  static std::string from(const Value& v) { return std::get<std::string>(v.data); }
};
template <class M>
concept FieldValue = requires {
  FieldTraits<M>::kType;
};
template <FieldValue E>
requires(FieldTraits<E>::kType != FieldType::array) struct FieldTraits<std::vector<E>> {
  static constexpr FieldType kType = FieldType::array;
  static Value to(const std::vector<E>& v) {
    Value::Array out;
    for (const E& e : v) out.push_back(FieldTraits<E>::to(e));
    return out;
  }
  static std::vector<E> from(const Value& v) {
    std::vector<E> out;
    for (const Value& e : array_of(v)) out.push_back(FieldTraits<E>::from(e));
    return out;
  }
};

/// Its sentence is the compiler's only error: what describes such a key is not instantiated.
template <class M>
constexpr void check_field() {
  static_assert(FieldValue<M>,
                "Schema::field: a key is bool, an integer, double (not float), std::string, a "
                "std::vector of these, or Auto<> of one; another component is a Schema::slot");
}
}  // namespace detail

}  // namespace tessera
