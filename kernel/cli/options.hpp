#pragma once
#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernel/config/home_path.hpp"
#include "kernel/launch/environment.hpp"
#include "kernel/launch/starvation_watch.hpp"
#include "tessera/error.hpp"

namespace tessera {

// A subcommand with its options, which live as long as the parser, and what to do when it is
// chosen.
struct Program {
  CLI::App app{"Trains transformer language models; every part is a plugin, chosen by name."};
  std::function<int()> chosen;

  // Makes a command that only looks: it starts no process, except to ask a driver for its units.
  template <class Options>
  std::shared_ptr<Options> choose(CLI::App* command, int (*run)(const Options&)) {
    return add<Options>(command, run);
  }

  // Makes a command that computes, which the system may kill because memory ran out.
  template <class Options>
  std::shared_ptr<Options> choose_work(CLI::App* command, int (*run)(const Options&)) {
    return add<Options>(command, [run](const Options& options) {
      std::optional<StarvationWatch> watch;
      if (std::getenv(kReportVariable) == nullptr) watch.emplace();  // its launcher would see it
      return run(options);
    });
  }

 private:
  template <class Options, class Run>
  std::shared_ptr<Options> add(CLI::App* command, Run run) {
    auto options = std::make_shared<Options>();
    command->callback([this, options, run] { chosen = [options, run] { return run(*options); }; });
    return options;
  }
};

// A word of the command line that is a path: a shell leaves the ~ of --out=~/x as it is.
template <class T>
CLI::Option* add_path(CLI::App* command, std::string name, T& value, std::string doc = "") {
  const auto expand = [](const std::string& text) {
    try {
      return expand_home(text);
    } catch (const ConfigError& error) {
      throw CLI::ValidationError(error.what());
    }
  };
  return command->add_option(std::move(name), value, std::move(doc))->transform(expand);
}

// Folders of plugins.
inline void add_plugin_folders(CLI::App* command, std::vector<std::string>& folders) {
  add_path(command, "--path", folders, "a plugin folder to search before all others")
      ->allow_extra_args(false)
      ->option_text("DIR ...");
}

inline void add_files(CLI::App* command, std::vector<std::string>& files) {
  add_path(command, "FILES", files, "configuration files, later ones over earlier ones")
      ->required();
}

inline void add_sets(CLI::App* command, std::vector<std::string>& sets) {
  command
      ->add_option(
          "--set", sets, "overrides one key of the configuration; repeatable; VALUE as in TOML")
      ->allow_extra_args(false)
      ->option_text("KEY=VALUE ...");
}

// CLI11 reads -1 into an unsigned number, and the text of its own check speaks of doubles.
inline std::string not_negative(const std::string& text) {
  return text.starts_with("-") ? text + " is negative" : std::string();
}

// CLI11 reads a number that is too large as the largest one.
inline std::string fits_64_bits(const std::string& text) {
  u64 value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  return read.ec == std::errc::result_out_of_range ? text + " does not fit into 64 bits"
                                                   : std::string();
}

inline std::string finite(const std::string& text) {
  const double value = std::strtod(text.c_str(), nullptr);
  return std::isfinite(value) ? std::string() : text + " is not a finite number";
}

inline std::string not_empty(const std::string& text) {
  return text.empty() ? "is empty" : std::string();
}

}  // namespace tessera
