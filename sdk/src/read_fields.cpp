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
      fail_config("{}: [{}] \"{}\" is set by the component around it; remove it",
                  node.origin(spec.name),
                  node.path(),
                  spec.name);
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

void read_component(const FieldSpec& spec,
                    const ConfigNode& node,
                    const Given& given,
                    void* object) {
  const std::string key = spec.name + ".type";
  const Value* type = node.find(key);
  if (type == nullptr) type = find_given(given, spec.name);
  if (type == nullptr && spec.initial) type = &*spec.initial;
  const std::string path = join_path(node.path(), spec.name);
  if (type == nullptr) fail_config("[{}] needs type = a {}", path, spec.type_text());
  const auto* name = std::get_if<std::string>(&type->data);
  if (name == nullptr) {
    fail_config("{}: [{}] type: expected a {}, got {}",
                node.origin(key),
                path,
                spec.type_text(),
                type->text());
  }
  spec.assign_component(object, *name, path);
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
