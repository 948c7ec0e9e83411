#include "sdk_support.hpp"

#include <algorithm>

namespace tessera {

const ComponentInfo& TestRegistrar::find(std::string_view kind, std::string_view type) const {
  for (const ComponentInfo& info : components) {
    if (info.kind == kind && info.type == type) return info;
  }
  fail("no {} \"{}\" was registered", kind, type);
}

std::unique_ptr<ConfigNode> TestTable::child(std::string_view) const {
  return std::make_unique<TestTable>(std::map<std::string, Value>(), absolute_);
}

const Parameter& TestBuild::Declared::parameter(std::string_view name) const {
  for (const auto& parameter : parameters) {
    if (parameter->name == name) return *parameter;
  }
  fail("no parameter {} was declared", name);
}

Parameter& TestBuild::parameter(const ParameterSpec& spec) {
  auto made = std::make_unique<Parameter>();
  made->name = scope_ + "." + std::string(spec.name);
  made->logical = spec.shape;
  made->layout = ParameterLayout(spec.shape, spec.split, spec.placement, mesh_);
  made->local = made->layout.storage();
  made->tags = spec.tags;
  made->init = spec.init;
  return *declared_.parameters.emplace_back(std::move(made));
}

Buffer& TestBuild::buffer(const BufferSpec& spec) {
  auto made = std::make_unique<Buffer>();
  made->name = scope_ + "." + std::string(spec.name);
  made->logical = made->local = spec.shape;
  made->layout = ParameterLayout(spec.shape, {}, Placement::replicated(), mesh_);
  made->dtype = spec.dtype.value_or(DType::fp32);
  made->initial = spec.initial;
  made->saved = spec.saved;
  return *declared_.buffers.emplace_back(std::move(made));
}

std::shared_ptr<void> TestBuild::make_child(std::string_view kind,
                                            std::string_view name,
                                            const std::string& type,
                                            const std::string&,
                                            const Given& given,
                                            ChildRows) {
  TestBuild inside(registrar_, mesh_, table_, declared_, scope_ + "." + std::string(name), device_);
  BuildContext& context = inside;
  return registrar_.find(kind, type).make(*table_.child(name), given, &context);
}

int TestBuild::index(std::vector<std::string>& names, std::string_view name) {
  const auto found = std::ranges::find(names, name);
  if (found != names.end()) return static_cast<int>(found - names.begin());
  names.emplace_back(name);
  return static_cast<int>(names.size()) - 1;
}

}  // namespace tessera
