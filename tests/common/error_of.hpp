#pragma once
#include <string>

#include "tessera/error.hpp"

namespace tessera::testing {

/// What an action throws, as people read it; empty where it throws nothing. What is no E passes.
template <class E = Error, class F>
std::string error_of(F&& action) {
  try {
    action();
  } catch (const E& error) {
    return error.what();
  }
  return {};
}

}  // namespace tessera::testing
