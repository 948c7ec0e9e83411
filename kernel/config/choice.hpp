#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "tessera/base/identified.hpp"

namespace tessera {

/// Where and how the configuration chose a component, for errors: `run.toml:12:3: [model.block.mlp]
/// type = "moe"`. `origin` of the key `type`.
std::string choice_text(std::string_view origin, std::string_view path, std::string_view type);

/// The same for a component; "" where its place is not known.
inline std::string_view choice_of(const std::shared_ptr<const Identity>& component) {
  return component != nullptr ? std::string_view(component->choice) : std::string_view();
}

/// Call in a catch block: throws on what was caught, with its place in the configuration and
/// `doing`. The place is that of the innermost component that it came from, else `choice`. An error
/// that has a place goes on as it is, and so does one for which none is known.
[[noreturn]] void rethrow_at(std::string_view choice, std::string_view doing = {});

}  // namespace tessera
