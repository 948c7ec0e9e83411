// Checks a device on the machine it is made for, part by part: gpu_check PART [options]. It needs
// the SDK and plugins only, so that it can travel to a machine that builds nothing.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>

#include "check.hpp"
#include "tessera/base/format.hpp"
#include "tessera/error.hpp"

namespace tessera::gpu_check {

Target::Target(Options options, std::vector<std::filesystem::path> plugins)
    : options_(std::move(options)), world_(std::move(plugins)) {}

std::shared_ptr<Device> Target::make(DeviceArguments arguments) const {
  return make(options_.device, std::move(arguments));
}

std::shared_ptr<Device> Target::make(std::string_view name, DeviceArguments arguments) const {
  if (!arguments.kernels) arguments.kernels = world_.kernels();
  return world_.make<Device>(name, arguments);
}

void print(const Json& line) {
  std::puts(line.text().c_str());
  std::fflush(stdout);
}

Json checked(std::string_view name, std::string_view problem) {
  return Json().add("name", name).add("problem", problem);
}

namespace {

constexpr const char* kUsage =
    "usage: gpu_check PART [options]\n"
    "parts: versions, rates, contract, operations, large, masks\n"
    "  --device NAME     cuda\n"
    "  --plugins FOLDER  beside those of this build; repeatable\n"
    "  --dtype NAME      of operations: fp32, bf16 or fp16, repeatable; all\n"
    "  --operation NAME  of operations: repeatable; all\n"
    "  --times N         of contract\n"
    "  --quick           sizes of a rehearsal\n"
    "One line of JSON for each check or measurement. Exit codes: 0 all checks ran, whatever they\n"
    "found; 1 one could not; 2 usage.\n";

[[noreturn]] void wrong_usage(const std::string& text) {
  std::fprintf(stderr, "gpu_check: %s\n%s", text.c_str(), kUsage);
  std::exit(2);
}

using Part = void (*)(const Target&);
const std::map<std::string, Part> kParts = {{"versions", versions},
                                            {"rates", rates},
                                            {"contract", contract},
                                            {"operations", operations},
                                            {"large", large},
                                            {"masks", masks}};

int run(const std::vector<std::string>& words) {
  if (words.empty() || !kParts.contains(words[0])) wrong_usage("name a part");
  Options options;
  std::vector<std::filesystem::path> plugins = {
      std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() / "plugins"};
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--quick") {
      options.quick = true;
      continue;
    }
    if (i + 1 == words.size()) wrong_usage(word + " wants a value, or is unknown");
    const std::string& value = words[++i];
    if (word == "--device") {
      options.device = value;
    } else if (word == "--plugins") {
      plugins.emplace_back(value);
    } else if (word == "--dtype") {
      options.dtypes.push_back(value);
    } else if (word == "--operation") {
      options.operations.push_back(value);
    } else if (word == "--times") {
      options.times = std::atoi(value.c_str());
      if (options.times < 1) wrong_usage("--times wants a number from 1 on, not " + value);
    } else {
      wrong_usage("unknown option " + word);
    }
  }
  kParts.at(words[0])(Target(std::move(options), std::move(plugins)));
  return 0;
}

}  // namespace
}  // namespace tessera::gpu_check

int main(int count, char** words) {
  try {
    return tessera::gpu_check::run({words + 1, words + count});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpu_check: %s\n", error.what());
    return 1;
  }
}
