#pragma once
#include <map>
#include <string>
#include <vector>

#include "common/test_folder.hpp"
#include "process_support.hpp"

namespace tessera::testing {

/// Path of this build's `tessera`.
std::string tessera_program();
/// Runs it with these arguments to its end.
ProcessResult run_tessera(std::vector<std::string> arguments, const ProcessOptions& options = {});

/// What CMake remembers of this build: "CMAKE_CXX_COMPILER".
std::string cached(const std::string& key);
/// Variables of an environment in which CMake compiles a plugin as this build's host.
std::map<std::string, std::string> compiler_variables();

/// Keys on the page of `config keys --markdown` that are any integer: "[lr] warmup_steps: integer
/// >= 0".
std::vector<std::string> unbounded_integers(const std::string& page);

}  // namespace tessera::testing
