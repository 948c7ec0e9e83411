#include "kernel/plugin/collector.hpp"

#include <algorithm>
#include <set>

#include "tessera/error.hpp"

namespace tessera {
namespace {

// Names go into TOML, paths and commands (`plugins show kind/type`).
void check_name(std::string_view what, std::string_view name) {
  const auto sound = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  };
  require(!name.empty() && std::all_of(name.begin(), name.end(), sound),
          "\"{}\" is not a valid name for a {}: use a-z, 0-9 and _",
          name,
          what);
}

}  // namespace

void Collector::add_component(ComponentInfo info) {
  check_name("kind", info.kind);
  check_name(info.kind, info.type);
  require(!info.doc.empty(), "{}/{} has no description", info.kind, info.type);
  for (const ComponentInfo& other : components) {
    require(other.kind != info.kind || other.type != info.type,
            "{}/{} is registered twice",
            info.kind,
            info.type);
  }
  components.push_back(std::move(info));
}

void Collector::add_kernel(std::string_view device, Kernel kernel) {
  check_name("device", device);
  require(!kernel.operation.empty() && kernel.launch != nullptr,
          "a kernel of device {} lacks its operation or its launch function",
          device);
  for (const DeviceKernel& other : kernels) {
    require(other.device != device || other.kernel.operation != kernel.operation,
            "the kernel of {} on {} is registered twice",
            kernel.operation,
            device);
  }
  kernels.push_back({std::string(device), std::move(kernel)});
}

void check_fields(const std::vector<FieldSpec>& fields) {
  std::set<std::string> names;
  for (const FieldSpec& field : fields) {
    require(names.insert(field.name).second, "the field {} is described twice", field.name);
    require(field.name != "type", "a field may not be named type: it selects the component");
    require(!field.doc.empty(), "the field {} has no description", field.name);
    check_fields(field.table_fields);
    if (field.type == FieldType::variants) {
      const auto like = std::ranges::find(fields, field.variants_of, &FieldSpec::name);
      require(like != fields.end() && like->type == FieldType::component &&
                  like->component_kind == field.component_kind,
              "the field {} has variants of {}, which is not a slot of the same kind",
              field.name,
              field.variants_of);
      continue;
    }
    if (field.type == FieldType::component || field.type == FieldType::tables) continue;
    if (!field.initial || !field.from.empty() || field.given) continue;
    try {
      field.checked(*field.initial);
    } catch (const Error& error) {
      fail("the default of field {} does not pass its own checks: {}", field.name, error.what());
    }
  }
}

}  // namespace tessera
