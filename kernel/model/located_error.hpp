#pragma once
#include <memory>
#include <string>

#include "tessera/error.hpp"
#include "tessera/layer.hpp"

namespace tessera {

/// An error with the place in the configuration that it comes from.
class LocatedError final : public Error {
 public:
  using Error::Error;
};

/// Call in a catch block: throws what was caught as a LocatedError that begins with `where`. An
/// error that is located already is thrown as it is, so the innermost component is named.
[[noreturn]] void rethrow_located(const std::string& where);

/// The same module, whose errors are located.
std::shared_ptr<Module> located(std::shared_ptr<Module> module, std::string where);
/// The same layer; its phases say which component they belong to (Phase::component).
std::shared_ptr<Layer> located(std::shared_ptr<Layer> layer, std::string where);

}  // namespace tessera
