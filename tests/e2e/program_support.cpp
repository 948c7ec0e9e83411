#include "program_support.hpp"

#include <fstream>
#include <regex>
#include <sstream>

namespace tessera::testing {
namespace fs = std::filesystem;

std::string tessera_program() { return TESSERA_BUILD_DIR "/bin/tessera"; }

ProcessResult run_tessera(std::vector<std::string> arguments, const ProcessOptions& options) {
  arguments.insert(arguments.begin(), tessera_program());
  return run_process(std::move(arguments), options);
}

std::string cached(const std::string& key) {
  std::ifstream file(TESSERA_BUILD_DIR "/CMakeCache.txt");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(key + ":")) return line.substr(line.find('=') + 1);
  }
  return {};
}

std::map<std::string, std::string> compiler_variables() {
  std::map<std::string, std::string> variables = {{"CXX", cached("CMAKE_CXX_COMPILER")},
                                                  {"CXXFLAGS", cached("CMAKE_CXX_FLAGS")}};
  if (const std::string sanitizers = cached("TESSERA_SANITIZE"); !sanitizers.empty()) {
    variables["CXXFLAGS"] += " -fsanitize=" + sanitizers;
  }
  const std::string ccache = cached("TESSERA_CCACHE");
  if (fs::exists(ccache)) variables["CMAKE_CXX_COMPILER_LAUNCHER"] = ccache;
  return variables;
}

std::vector<std::string> unbounded_integers(const std::string& page) {
  const std::regex row("^\\| `([^`]+)` \\| ((?:array of )?integer[^|]*)");
  std::vector<std::string> found;
  std::string table;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("##")) table = line.substr(line.find('['));
    std::smatch key;
    if (!std::regex_search(line, key, row)) continue;
    std::string type = key[2];
    type.erase(type.find_last_not_of(" \\") + 1);
    if (type.find(" in [") == std::string::npos) {
      found.push_back(table + " " + key[1].str() + ": " + type);
    }
  }
  return found;
}

}  // namespace tessera::testing
