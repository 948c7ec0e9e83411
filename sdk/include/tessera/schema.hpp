#pragma once
#include <concepts>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "tessera/base/field_traits.hpp"
#include "tessera/base/value.hpp"
#include "tessera/bounds.hpp"

namespace tessera {

/// A component slot: which plugin of kind K stands here. The member's initial value is the
/// default type; configuration replaces it at the slot's path (`[model.block.mlp] type = "moe"`).
/// An empty type means "none". `path` is filled when the configuration is read.
template <class K>
struct Component {
  std::string type;
  std::string path = {};
};

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
  bool is_range = false;                ///< of an array: its first and last value, in order
  bool structural = false;              ///< FieldBuilder::structural; of a slot: its type
  bool is_path = false;                 ///< of a string, or of an array of strings
  std::vector<std::string> path_words;  ///< what a path key takes as it stands
  std::vector<std::string> choices;
  std::string megatron;  ///< the flags a Megatron-LM user would search for, with spaces between
  struct OtherNames {
    std::string names;  ///< with spaces between
    std::string words;
  };
  std::vector<OtherNames> also;         ///< FieldBuilder::also
  std::string component_kind;           ///< kind of a component slot, or of variants of one
  std::string variants_of;              ///< of variants: the slot that they are like
  std::vector<FieldSpec> table_fields;  ///< of each table of `tables`
  std::function<void(void* object, const Value&)> assign;  ///< all but the three below
  std::function<void(void* object, std::string type, std::string path)> assign_component;
  std::function<void(void* object, const std::string& name, const ConfigNode&)> assign_table;
  std::function<void(void* object, const std::string& name, std::string type, std::string path)>
      assign_variant;

  // Defined in libtessera, so that plugins need not compile them.
  FieldSpec();
  FieldSpec(const FieldSpec& other);
  FieldSpec(FieldSpec&& other) noexcept;
  FieldSpec& operator=(const FieldSpec& other);
  FieldSpec& operator=(FieldSpec&& other) noexcept;
  ~FieldSpec();

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
  /// For an array of numbers: two values, the first not above the last.
  FieldBuilder& range();
  /// For a string or an array of strings: names of files or folders. The component reads them as
  /// absolute paths: a relative one counts from the folder of the file that wrote it, from --set
  /// from the working folder. The default, an empty text, what has "://" and `words` that mean
  /// something else stay as they are: `.is_path({"none"})`; the word "<number>" stands for all
  /// numbers, as weights of files. Throws Error where the member holds no strings.
  FieldBuilder& is_path(std::vector<std::string> words = {});
  /// When absent, the value found at this absolute path.
  FieldBuilder& from(std::string_view path);
  /// Only the parent component sets it.
  FieldBuilder& given();
  /// No default: leaving the key out is an error.
  FieldBuilder& required();
  FieldBuilder& megatron(std::string_view flag);
  /// What other programs call the key, names with spaces between. A user who writes one of them as
  /// a key is told `words`, where {} stands for this key's path. A name with "--" before it is a
  /// flag of Megatron-LM that is not quite the key; one that is, is said with megatron().
  FieldBuilder& also(std::string_view names, std::string_view words = "is {} here");
  /// Changes what the parameters compute, not only how they are trained: a checkpoint that was
  /// trained with one value cannot go on with another. Say it of heads, an epsilon, a scale; not of
  /// dropout, initial values, coefficients of losses, or what a parameter's shape shows. The type
  /// of a slot for a layer, a module, a router or a model is structural without it. A resume,
  /// `init_from`, `generate` and `convert` refuse another value than the checkpoint's, by name.
  FieldBuilder& structural();

 private:
  FieldSpec& spec_;
};

template <class T>
class Schema;

namespace detail {
/// K is an interface of the SDK: what a slot holds, and what a class is registered as.
template <class K>
concept ComponentKind = requires {
  { K::kKind } -> std::convertible_to<std::string_view>;
};
/// Components of kind K compute with parameters, so which one is chosen says what these mean.
template <class K>
concept StructuralKind = requires {
  requires K::kStructural;
};
/// The K of a Component<K>; void where M is none.
template <class M>
struct SlotKind {
  using Type = void;
};
template <class K>
struct SlotKind<Component<K>> {
  using Type = K;
};
/// The E of a std::map<std::string, E>; void where M is none.
template <class M>
struct NamedType {
  using Type = void;
};
template <class E>
struct NamedType<std::map<std::string, E>> {
  using Type = E;
};
template <class E>
concept DescribedTable = std::is_default_constructible_v<E> && requires(Schema<E>& s) {
  E::describe(s);
};

/// What a Schema has that does not depend on its T.
class TESSERA_API Fields {
 public:
  Fields();
  ~Fields();
  const std::vector<FieldSpec>& fields() const { return fields_; }

 protected:
  FieldSpec& add(std::string_view name, std::string_view doc, FieldType type);

 private:
  std::vector<FieldSpec> fields_;
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
class Schema : public detail::Fields {
 public:
  // A member of a wrong type is one error of the compiler, a sentence that says what to write.
  // Members may be those of a base, which several structs share.

  /// bool, integers, double, std::string, std::vector of these.
  template <class M, class Of>
  FieldBuilder field(std::string_view name, M Of::*of, std::string_view doc) {
    detail::check_field<M>();
    M T::*member = of;
    FieldSpec& spec = add(name, doc, FieldType::string);
    if constexpr (detail::FieldValue<M> && std::is_default_constructible_v<T>) {
      using Traits = detail::FieldTraits<M>;
      spec.type = Traits::kType;
      if constexpr (Traits::kType == FieldType::array) {
        spec.element = detail::FieldTraits<typename M::value_type>::kType;
      }
      spec.initial = Traits::to(T{}.*member);
      spec.assign = [member](void* object, const Value& value) {
        static_cast<T*>(object)->*member = Traits::from(value);
      };
    }
    return FieldBuilder(spec);
  }

  /// The same with the word "auto" allowed, or another; the word leaves the member empty.
  template <class M, class Of>
  FieldBuilder field(std::string_view name,
                     Auto<M> Of::*of,
                     std::string_view doc,
                     std::string_view word = "auto") {
    detail::check_field<M>();
    Auto<M> T::*member = of;
    FieldSpec& spec = add(name, doc, FieldType::string);
    spec.allows_auto = true;
    spec.automatic = word;
    if constexpr (detail::FieldValue<M> && std::is_default_constructible_v<T>) {
      using Traits = detail::FieldTraits<M>;
      spec.type = Traits::kType;
      const Auto<M> initial = T{}.*member;
      spec.initial = initial ? Traits::to(*initial) : Value(spec.automatic);
      spec.assign = [member, automatic = spec.automatic](void* object, const Value& value) {
        const auto* text = std::get_if<std::string>(&value.data);
        auto& target = static_cast<T*>(object)->*member;
        if (text != nullptr && *text == automatic) {
          target.reset();
        } else {
          target = Traits::from(value);
        }
      };
    }
    return FieldBuilder(spec);
  }

  /// A component slot: a member `Component<K>`.
  template <class M, class Of>
  FieldBuilder slot(std::string_view name, M Of::*of, std::string_view doc) {
    M T::*member = of;
    using K = typename detail::SlotKind<M>::Type;
    static_assert(detail::ComponentKind<K>,
                  "Schema::slot: the member must be a Component<K>, and its K an interface of the "
                  "SDK (Module, Layer, ...)");
    FieldSpec& spec = add(name, doc, FieldType::component);
    if constexpr (detail::ComponentKind<K> && std::is_default_constructible_v<T>) {
      spec.component_kind = K::kKind;
      spec.structural = detail::StructuralKind<K>;
      spec.initial = Value((T{}.*member).type);
      spec.assign_component = [member](void* object, std::string type, std::string path) {
        static_cast<T*>(object)->*member = Component<K>{std::move(type), std::move(path)};
      };
    }
    return FieldBuilder(spec);
  }

  /// Named tables of one struct E (with its own describe), a member `std::map<std::string, E>`:
  /// `[optimizer.groups.head] match = …`.
  template <class M>
  FieldBuilder tables(std::string_view name, M T::*member, std::string_view doc) {
    using E = typename detail::NamedType<M>::Type;
    static_assert(detail::DescribedTable<E>,
                  "Schema::tables: the member must be a std::map<std::string, Struct>; the Struct "
                  "needs `static void describe(Schema<Struct>& s)` and initial values");
    FieldSpec& spec = add(name, doc, FieldType::tables);
    if constexpr (detail::DescribedTable<E>) {
      Schema<E> element;
      E::describe(element);
      spec.table_fields = element.fields();
      spec.assign_table = [member, fields = element.fields()](
                              void* object, const std::string& key, const ConfigNode& node) {
        read_fields(fields, node, {}, &(static_cast<T*>(object)->*member)[key]);
      };
    }
    return FieldBuilder(spec);
  }

  /// Named variants of the slot `of`, which was described before, a member
  /// `std::map<std::string, Component<K>>`: `[model.blocks.NAME]` reads as what is written for
  /// `[model.block]`, with its own keys over it. Where it chooses another type, keys that only the
  /// former type knows do not count.
  template <class M>
  FieldBuilder variants(std::string_view name,
                        M T::*member,
                        std::string_view of,
                        std::string_view doc) {
    using K = typename detail::SlotKind<typename detail::NamedType<M>::Type>::Type;
    static_assert(detail::ComponentKind<K>,
                  "Schema::variants: the member must be a std::map<std::string, Component<K>>, and "
                  "its K an interface of the SDK (Module, Layer, ...)");
    FieldSpec& spec = add(name, doc, FieldType::variants);
    spec.variants_of = of;
    if constexpr (detail::ComponentKind<K>) {
      spec.component_kind = K::kKind;
      spec.assign_variant =
          [member](void* object, const std::string& key, std::string type, std::string path) {
            (static_cast<T*>(object)->*member)[key] = {std::move(type), std::move(path)};
          };
    }
    return FieldBuilder(spec);
  }
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
