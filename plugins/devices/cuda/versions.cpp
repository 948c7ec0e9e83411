#include "versions.hpp"

#include <fmt/format.h>

#include <sstream>

#include "runtime.hpp"

namespace tessera::cuda {

Versions installed_versions() {
  Versions versions;
  (void)cudaDriverGetVersion(&versions.driver);
  (void)cudaRuntimeGetVersion(&versions.runtime);
  return versions;
}

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string installed_text() {
  const Versions versions = installed_versions();
  const std::string release = release_in(driver_file());
  return fmt::format("driver {}{}for CUDA {}, runtime {}",
                     release,
                     release.empty() ? "" : " ",
                     version_text(versions.driver),
                     version_text(versions.runtime));
}

std::string release_in(std::string_view file) {
  std::istringstream words{std::string(file)};
  for (std::string word; words >> word;) {
    const bool numbers = word.find_first_not_of("0123456789.") == word.npos;
    if (numbers && word.find('.') != word.npos) return word;
  }
  return {};
}

}  // namespace tessera::cuda
