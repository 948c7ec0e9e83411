#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "kernel/plugin/origin.hpp"
#include "tessera/error.hpp"
#include "tessera/layer.hpp"
#include "tessera/optimizer.hpp"

namespace tessera {

class ComponentMaker;

/// An error with the place in the configuration that it comes from.
class LocatedError final : public Error, public NamesItsComponent {
 public:
  using Error::Error;
};

/// Call in a catch block: throws what was caught as a LocatedError that begins with `where`. An
/// error that is located already is thrown as it is, so the innermost component is named.
[[noreturn]] void rethrow_located(const std::string& where);

/// Where and how the configuration chose a component, for errors:
/// "configs/x.toml:12:3: [model.block.mlp] type = \"moe\"".
std::string component_text(const ComponentMaker& maker,
                           const std::string& path,
                           std::string_view type);

/// The same module, whose errors are located.
std::shared_ptr<Module> located(std::shared_ptr<Module> module, std::string where);
/// The same layer; its phases say which component they belong to (Phase::component).
std::shared_ptr<Layer> located(std::shared_ptr<Layer> layer, std::string where);
/// The same rule; errors of its updates are located.
std::shared_ptr<UpdateRule> located(std::shared_ptr<UpdateRule> rule, std::string where);

}  // namespace tessera
