#pragma once
#include <concepts>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/error.hpp"
#include "tessera/value.hpp"

namespace tessera {

/// A component slot: which plugin of kind K stands here. The member's initial value is the
/// default type; configuration replaces it at the slot's path (`[model.block.mlp] type = "moe"`).
/// An empty type means "none". `path` is filled when the configuration is read.
template <class K>
struct Component {
  std::string type;
  std::string path = {};
};

/// A value or a word, usually "auto" (no value). `Auto<i64> ranks;` starts as the word.
template <class T>
using Auto = std::optional<T>;

enum class FieldType : u8 { boolean, integer, number, string, array, component, tables, variants };

/// What is known of one configuration key. Written through Schema<T>; read by the parser, by
/// `plugins show`, by `config check`. Everything in it is plain data of libtessera's heap.
struct TESSERA_API FieldSpec {
  std::string name;
  std::string doc;
  FieldType type = FieldType::string;
  FieldType element = FieldType::string;  ///< of an array
  bool allows_auto = false;               ///< takes the word `automatic` too
  std::string automatic = "auto";
  std::optional<Value> initial;  ///< the default; empty when the key must be given
  std::string from;              ///< absolute path read when the key is absent
  bool given = false;            ///< only the parent component sets it; an error in a file
  std::optional<double> least, most;
  bool least_excluded = false, most_excluded = false;
  bool is_range = false;  ///< of an array: its first and last value, in order
  std::vector<std::string> choices;
  std::string megatron;  ///< the flags a Megatron-LM user would search for, with spaces between
  std::string component_kind;           ///< kind of a component slot, or of variants of one
  std::string variants_of;              ///< of variants: the slot that they are like
  std::vector<FieldSpec> table_fields;  ///< of each table of `tables`
  std::function<void(void* object, const Value&)> assign;  ///< all but the three below
  std::function<void(void* object, std::string type, std::string path)> assign_component;
  std::function<void(void* object, const std::string& name, const ConfigNode&)> assign_table;
  std::function<void(void* object, const std::string& name, std::string type, std::string path)>
      assign_variant;

  /// Throws ConfigError with the reason when `value` has the wrong type or is out of range;
  /// returns it converted (an integer where a float is wanted becomes a float).
  Value checked(const Value& value) const;
  /// "integer >= 1", "\"a\" | \"b\"", "float in [0, 1)": for `plugins show`.
  std::string type_text() const;
};

/// Reads a component's table into `object`: own keys, then given values, then `from` paths, then
/// defaults. Throws ConfigError naming path and key; `config check` finds all problems beforehand,
/// so a run sees this only for programmatic use.
TESSERA_API void read_fields(const std::vector<FieldSpec>& fields,
                             const ConfigNode& node,
                             const Given& given,
                             void* object);

/// Refines a field just added: `s.field("beta1", &C::beta1, "…").at_least(0).below(1)`.
class TESSERA_API FieldBuilder {
 public:
  explicit FieldBuilder(FieldSpec& spec) : spec_(spec) {}
  FieldBuilder& at_least(double least);
  FieldBuilder& at_most(double most);
  FieldBuilder& above(double bound);
  FieldBuilder& below(double bound);
  FieldBuilder& one_of(std::vector<std::string> choices);
  /// Of an array of numbers: two values, the first not above the last.
  FieldBuilder& range();
  /// When absent, the value found at this absolute path.
  FieldBuilder& from(std::string_view path);
  /// Only the parent component sets it.
  FieldBuilder& given();
  /// No default: leaving the key out is an error.
  FieldBuilder& required();
  FieldBuilder& megatron(std::string_view flag);

 private:
  FieldSpec& spec_;
};

namespace detail {
TESSERA_API Value::Array array_of(const Value& value);
template <class M>
struct FieldTraits;
template <>
struct FieldTraits<bool> {
  static constexpr FieldType kType = FieldType::boolean;
  static Value to(bool v) { return v; }
  static bool from(const Value& v) { return std::get<bool>(v.data); }
};
template <std::integral M>
requires(!std::same_as<M, bool>) struct FieldTraits<M> {
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
struct FieldTraits<std::vector<E>> {
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
template <class M>
struct FieldCheck {
  static_assert(FieldValue<M>,
                "Schema::field: a key is bool, an integer, double (not float), std::string, a "
                "std::vector of these, or Auto<> of one; another component is a Schema::slot");
};
}  // namespace detail

/// Describes the fields of one component's parameter struct T, once, for everything that needs
/// to know them. A component writes
///
///     struct Config {
///       double beta1 = 0.9;
///       Component<Module> norm{"layernorm"};
///       static void describe(Schema<Config>& s) {
///         s.field("beta1", &Config::beta1, "decay of the first moment").at_least(0).below(1);
///         s.slot("norm", &Config::norm, "normalisation before the layer");
///       }
///     };
///
/// Defaults are the members' initial values.
template <class T>
class Schema {
 public:
  /// bool, integers, double, std::string, std::vector of these.
  template <class M>
  FieldBuilder field(std::string_view name, M T::*member, std::string_view doc) {
    static_assert(sizeof(detail::FieldCheck<M>) > 0);
    FieldSpec& spec = add(name, doc, detail::FieldTraits<M>::kType);
    if constexpr (detail::FieldTraits<M>::kType == FieldType::array) {
      spec.element = detail::FieldTraits<typename M::value_type>::kType;
    }
    spec.initial = detail::FieldTraits<M>::to(T{}.*member);
    spec.assign = [member](void* object, const Value& value) {
      static_cast<T*>(object)->*member = detail::FieldTraits<M>::from(value);
    };
    return FieldBuilder(spec);
  }

  /// The same with the word "auto" allowed, or another; the word leaves the member empty.
  template <class M>
  FieldBuilder field(std::string_view name,
                     Auto<M> T::*member,
                     std::string_view doc,
                     std::string_view word = "auto") {
    static_assert(sizeof(detail::FieldCheck<M>) > 0);
    FieldSpec& spec = add(name, doc, detail::FieldTraits<M>::kType);
    spec.allows_auto = true;
    spec.automatic = word;
    const Auto<M> initial = T{}.*member;
    spec.initial = initial ? detail::FieldTraits<M>::to(*initial) : Value(spec.automatic);
    spec.assign = [member, automatic = spec.automatic](void* object, const Value& value) {
      const auto* text = std::get_if<std::string>(&value.data);
      auto& target = static_cast<T*>(object)->*member;
      if (text != nullptr && *text == automatic) {
        target.reset();
      } else {
        target = detail::FieldTraits<M>::from(value);
      }
    };
    return FieldBuilder(spec);
  }

  /// A component slot.
  template <class K>
  FieldBuilder slot(std::string_view name, Component<K> T::*member, std::string_view doc) {
    static_assert(
        requires {
          { K::kKind } -> std::convertible_to<std::string_view>;
        },
        "Schema::slot: the K of Component<K> must be an interface of the SDK (Module, Layer, ...)");
    FieldSpec& spec = add(name, doc, FieldType::component);
    spec.component_kind = K::kKind;
    spec.initial = Value((T{}.*member).type);
    spec.assign_component = [member](void* object, std::string type, std::string path) {
      static_cast<T*>(object)->*member = Component<K>{std::move(type), std::move(path)};
    };
    return FieldBuilder(spec);
  }

  /// Named tables of one struct E (with its own describe): `[optimizer.groups.head] match = …`.
  template <class E>
  FieldBuilder tables(std::string_view name,
                      std::map<std::string, E> T::*member,
                      std::string_view doc) {
    static_assert(
        requires(Schema<E> & s) { E::describe(s); },
        "Schema::tables: the tables' struct needs `static void describe(Schema<Struct>& s)`");
    FieldSpec& spec = add(name, doc, FieldType::tables);
    Schema<E> element;
    E::describe(element);
    spec.table_fields = element.fields();
    spec.assign_table = [member, fields = element.fields()](
                            void* object, const std::string& key, const ConfigNode& node) {
      read_fields(fields, node, {}, &(static_cast<T*>(object)->*member)[key]);
    };
    return FieldBuilder(spec);
  }

  /// Named variants of the slot `of`, which was described before: `[model.blocks.NAME]` reads as
  /// what is written for `[model.block]`, with its own keys over it. Where it chooses another type,
  /// keys that only the former type knows do not count.
  template <class K>
  FieldBuilder variants(std::string_view name,
                        std::map<std::string, Component<K>> T::*member,
                        std::string_view of,
                        std::string_view doc) {
    FieldSpec& spec = add(name, doc, FieldType::variants);
    spec.component_kind = K::kKind;
    spec.variants_of = of;
    spec.assign_variant =
        [member](void* object, const std::string& key, std::string type, std::string path) {
          (static_cast<T*>(object)->*member)[key] = {std::move(type), std::move(path)};
        };
    return FieldBuilder(spec);
  }

  const std::vector<FieldSpec>& fields() const { return fields_; }

 private:
  FieldSpec& add(std::string_view name, std::string_view doc, FieldType type) {
    FieldSpec spec;
    spec.name = name;
    spec.doc = doc;
    spec.type = type;
    return fields_.emplace_back(std::move(spec));
  }
  std::vector<FieldSpec> fields_;
};

/// The fields of T as T::describe states them.
template <class T>
std::vector<FieldSpec> fields_of() {
  Schema<T> schema;
  T::describe(schema);
  return schema.fields();
}

/// Parameters of a component that has none.
struct NoConfig {
  static void describe(Schema<NoConfig>&) {}
};

}  // namespace tessera
