#include "tessera/schema.hpp"

#include <algorithm>
#include <cmath>

#include "tessera/io/suggest.hpp"
#include "tessera/io/utf8.hpp"

namespace tessera {
namespace {

std::string_view noun(FieldType type) {
  switch (type) {
    case FieldType::boolean:
      return "boolean";
    case FieldType::integer:
      return "integer";
    case FieldType::number:
      return "float";
    case FieldType::string:
      return "string";
    case FieldType::array:
      return "array";
    case FieldType::component:
      return "component";
    case FieldType::tables:
      return "tables";
    case FieldType::variants:
      return "variants";
  }
  return "value";
}

std::string_view noun(const FieldSpec& spec) {
  return spec.is_path ? "path" : noun(spec.type == FieldType::array ? spec.element : spec.type);
}

// A value in an error: on one line, and not a page of it.
std::string brief(const Value& value) {
  constexpr std::size_t kShown = 80;
  std::string text = value.text();
  const std::string_view shown = cut_text(text, kShown);
  return fmt::format("{}{}", shown, shown.size() < text.size() ? "..." : "");
}

std::string range_text(const FieldSpec& spec) {
  const bool low = spec.least.has_value(), high = spec.most.has_value();
  if (low && high) {
    return fmt::format(" in {}{}, {}{}",
                       spec.least_excluded ? '(' : '[',
                       *spec.least,
                       *spec.most,
                       spec.most_excluded ? ')' : ']');
  }
  if (low) return fmt::format(" {} {}", spec.least_excluded ? ">" : ">=", *spec.least);
  if (high) return fmt::format(" {} {}", spec.most_excluded ? "<" : "<=", *spec.most);
  return "";
}

std::string choices_text(const FieldSpec& spec) {
  std::string out;
  for (const std::string& choice : spec.choices) {
    if (!out.empty()) out += " | ";
    out += Value(choice).text();
  }
  return out;
}

bool in_range(const FieldSpec& spec, double value) {
  if (std::isnan(value)) return false;
  if (spec.least && (spec.least_excluded ? value <= *spec.least : value < *spec.least))
    return false;
  if (spec.most && (spec.most_excluded ? value >= *spec.most : value > *spec.most)) return false;
  return true;
}

// Beyond what a float may be where its field does not say.
bool beyond_reals(const FieldSpec& spec, double value) {
  return (!spec.most && value > kMostReal) || (!spec.least && value < -kMostReal);
}

/// One value that is no array; false when it does not fit.
bool fits(const FieldSpec& spec, FieldType type, Value& value) {
  switch (type) {
    case FieldType::boolean:
      return std::holds_alternative<bool>(value.data);
    case FieldType::integer: {
      const i64* integer = std::get_if<i64>(&value.data);
      return integer != nullptr && in_range(spec, static_cast<double>(*integer));
    }
    case FieldType::number: {
      if (const i64* integer = std::get_if<i64>(&value.data)) {
        value = Value(static_cast<double>(*integer));
      }
      const double* number = std::get_if<double>(&value.data);
      return number != nullptr && in_range(spec, *number) && !beyond_reals(spec, *number);
    }
    case FieldType::string: {
      const auto* text = std::get_if<std::string>(&value.data);
      return text != nullptr &&
             (spec.choices.empty() || std::ranges::find(spec.choices, *text) != spec.choices.end());
    }
    default:
      return false;
  }
}

bool is_number(const Value& value) {
  return std::holds_alternative<i64>(value.data) || std::holds_alternative<double>(value.data);
}

double number_of(const Value& value) {
  const i64* integer = std::get_if<i64>(&value.data);
  return integer != nullptr ? static_cast<double>(*integer) : std::get<double>(value.data);
}

bool in_order(const Value::Array& range) {
  return range.size() == 2 && number_of(range[0]) <= number_of(range[1]);
}

}  // namespace

FieldSpec::FieldSpec() = default;
FieldSpec::FieldSpec(const FieldSpec& other) = default;
FieldSpec::FieldSpec(FieldSpec&& other) noexcept = default;
FieldSpec& FieldSpec::operator=(const FieldSpec& other) = default;
FieldSpec& FieldSpec::operator=(FieldSpec&& other) noexcept = default;
FieldSpec::~FieldSpec() = default;

namespace detail {

Fields::Fields() = default;
Fields::~Fields() = default;

FieldSpec& Fields::add(std::string_view name, std::string_view doc, FieldType type) {
  FieldSpec spec;
  spec.name = name;
  spec.doc = doc;
  spec.type = type;
  return fields_.emplace_back(std::move(spec));
}

}  // namespace detail

std::string FieldSpec::type_text() const {
  std::string out;
  if (type == FieldType::component) {
    out = fmt::format("{} plugin", component_kind);
  } else if (type == FieldType::tables) {
    out = "tables";
  } else if (type == FieldType::variants) {
    out = fmt::format("tables over that of {}", variants_of);
  } else if (type == FieldType::array) {
    out = choices.empty() ? fmt::format("array of {}{}", noun(*this), range_text(*this))
                          : fmt::format("array of {}", choices_text(*this));
    if (is_range) out += ": first and last, in order";
  } else {
    out =
        choices.empty() ? fmt::format("{}{}", noun(*this), range_text(*this)) : choices_text(*this);
  }
  for (const std::string& word : path_words) out += " | " + Value(word).text();
  if (allows_auto) out += " | " + Value(automatic).text();
  return out;
}

Value FieldSpec::checked(const Value& value) const {
  if (allows_auto && value == Value(automatic)) return value;
  Value out = value;
  bool good = false;
  if (type == FieldType::array) {
    // One value stands for an array of one: `path = "a.txt"`.
    if (!std::holds_alternative<Value::Array>(out.data)) out = Value(Value::Array{value});
    good = std::ranges::all_of(std::get<Value::Array>(out.data),
                               [this](Value& each) { return fits(*this, element, each); });
    if (good && is_range) good = in_order(std::get<Value::Array>(out.data));
  } else {
    good = fits(*this, type, out);
  }
  if (good) return out;
  std::string text = fmt::format("expected {}, got {}", type_text(), brief(value));
  if (type == FieldType::number && is_number(value) && in_range(*this, number_of(value))) {
    text += fmt::format("; a float is at most {:g} in size", kMostReal);
  }
  if (const auto* word = std::get_if<std::string>(&value.data)) {
    if (const auto near = nearest(*word, choices))
      text += fmt::format("; did you mean \"{}\"?", *near);
  }
  throw ConfigError(text);
}

FieldBuilder& FieldBuilder::at_least(double least) {
  spec_.least = least;
  spec_.least_excluded = false;
  return *this;
}

FieldBuilder& FieldBuilder::at_most(double most) {
  spec_.most = most;
  spec_.most_excluded = false;
  return *this;
}

FieldBuilder& FieldBuilder::above(double bound) {
  spec_.least = bound;
  spec_.least_excluded = true;
  return *this;
}

FieldBuilder& FieldBuilder::below(double bound) {
  spec_.most = bound;
  spec_.most_excluded = true;
  return *this;
}

FieldBuilder& FieldBuilder::one_of(std::vector<std::string> choices) {
  spec_.choices = std::move(choices);
  return *this;
}

FieldBuilder& FieldBuilder::range() {
  spec_.is_range = true;
  return *this;
}

FieldBuilder& FieldBuilder::is_path(std::vector<std::string> words) {
  require((spec_.type == FieldType::array ? spec_.element : spec_.type) == FieldType::string,
          "the key {} is_path(): its member must be a std::string, or a std::vector of them",
          spec_.name);
  spec_.is_path = true;
  spec_.path_words = std::move(words);
  return *this;
}

FieldBuilder& FieldBuilder::from(std::string_view path) {
  spec_.from = path;
  return *this;
}

FieldBuilder& FieldBuilder::given() {
  spec_.given = true;
  return *this;
}

FieldBuilder& FieldBuilder::required() {
  spec_.initial.reset();
  return *this;
}

FieldBuilder& FieldBuilder::megatron(std::string_view flag) {
  spec_.megatron = flag;
  return *this;
}

FieldBuilder& FieldBuilder::also(std::string_view names, std::string_view words) {
  spec_.also.push_back({std::string(names), std::string(words)});
  return *this;
}

FieldBuilder& FieldBuilder::structural() {
  spec_.structural = true;
  return *this;
}

}  // namespace tessera
