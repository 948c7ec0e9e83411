#include <algorithm>

#include "tessera/schema.hpp"

namespace tessera {
namespace {

const Value* find_given(const Given& given, std::string_view name) {
  const auto found = std::ranges::find(given, name, &Given::value_type::first);
  return found == given.end() ? nullptr : &found->second;
}

// "[model.block] hidden", or the key alone where it stands in no table.
std::string place_of(std::string_view table, std::string_view key) {
  return table.empty() ? std::string(key) : fmt::format("[{}] {}", table, key);
}

struct Source {
  const Value* value = nullptr;
  std::string origin;
};

Source source_of(const FieldSpec& spec, const ConfigNode& node, const Given& given) {
  if (const Value* own = node.find(spec.name)) {
    if (spec.given) {
      const bool from = !spec.from.empty() && node.absolute(spec.from) != nullptr;
      fail_config(
          "{}: [{}] \"{}\" is set by {}",
          node.origin(spec.name),
          node.path(),
          spec.name,
          from ? fmt::format("{}; set that one", spec.from) : "the component around it; remove it");
    }
    return {own, node.origin(spec.name)};
  }
  if (const Value* handed = find_given(given, spec.name)) return {handed, "set by its parent"};
  if (!spec.from.empty()) {
    if (const Value* there = node.absolute(spec.from)) return {there, "from " + spec.from};
  }
  if (spec.initial) return {&*spec.initial, "default"};
  if (spec.given) {
    fail("[{}] \"{}\" must be given by the component around it", node.path(), spec.name);
  }
  fail_config("[{}] \"{}\" is missing: {}; expected {}",
              node.path(),
              spec.name,
              spec.doc,
              spec.type_text());
}

void read_value(const FieldSpec& spec, const ConfigNode& node, const Given& given, void* object) {
  const Source source = source_of(spec, node, given);
  try {
    spec.assign(object, spec.checked(*source.value));
  } catch (const ConfigError& error) {
    fail_config("{}: {}: {}", source.origin, place_of(node.path(), spec.name), error.what());
  }
}

/// The type that the table `name` chooses, or `otherwise`.
std::string type_of(const FieldSpec& spec,
                    const ConfigNode& node,
                    const std::string& name,
                    const Value* otherwise) {
  const std::string key = name + ".type";
  const Value* type = node.find(key);
  if (type == nullptr) type = otherwise;
  const std::string path = join_path(node.path(), name);
  if (type == nullptr) fail_config("[{}] needs type = a {} plugin", path, spec.component_kind);
  const auto* text = std::get_if<std::string>(&type->data);
  if (text == nullptr) {
    fail_config("{}: [{}] type: expected a {} plugin, got {}",
                node.origin(key),
                path,
                spec.component_kind,
                type->text());
  }
  return *text;
}

const Value* initial_of(const FieldSpec& spec) { return spec.initial ? &*spec.initial : nullptr; }

void read_component(const FieldSpec& spec,
                    const ConfigNode& node,
                    const Given& given,
                    void* object) {
  const Value* handed = find_given(given, spec.name);
  spec.assign_component(
      object,
      type_of(spec, node, spec.name, handed != nullptr ? handed : initial_of(spec)),
      join_path(node.path(), spec.name));
}

void read_variants(const std::vector<FieldSpec>& fields,
                   const FieldSpec& spec,
                   const ConfigNode& node,
                   void* object) {
  const auto like = std::ranges::find(fields, spec.variants_of, &FieldSpec::name);
  const Value* initial = like != fields.end() ? initial_of(*like) : nullptr;
  for (const std::string& name : node.tables(spec.name)) {
    const std::string key = join_path(spec.name, name);
    spec.assign_variant(
        object, name, type_of(spec, node, key, initial), join_path(node.path(), key));
  }
}

}  // namespace

void read_fields(const std::vector<FieldSpec>& fields,
                 const ConfigNode& node,
                 const Given& given,
                 void* object) {
  for (const auto& [name, value] : given) {
    require(std::ranges::find(fields, name, &FieldSpec::name) != fields.end(),
            "[{}] is given {} = {}, but the component has no such field",
            node.path(),
            name,
            value.text());
  }
  for (const FieldSpec& spec : fields) {
    if (spec.type == FieldType::component) {
      read_component(spec, node, given, object);
    } else if (spec.type == FieldType::variants) {
      read_variants(fields, spec, node, object);
    } else if (spec.type == FieldType::tables) {
      for (const std::string& name : node.tables(spec.name)) {
        spec.assign_table(object, name, *node.child(join_path(spec.name, name)));
      }
    } else {
      read_value(spec, node, given, object);
    }
  }
}

}  // namespace tessera
