#include <fmt/format.h>

#include <cstdio>
#include <fstream>

#include "kernel/cli/commands.hpp"
#include "kernel/config/config.hpp"
#include "kernel/launch/environment.hpp"
#include "kernel/launch/open_plugins.hpp"
#include "kernel/plan/report.hpp"
#include "kernel/schedule/draw.hpp"
#include "kernel/train/setup/run_setup.hpp"
#include "tessera/error.hpp"

namespace tessera {

namespace {

Prediction predict(const PlanOptions& options) {
  const Config config = Config::load(options.files, options.sets);
  const auto plugins = open_plugins(config.plugin_path());
  const Resolved resolved = resolve(config, *plugins);
  for (const std::string& notice : resolved.notices) fmt::print(stderr, "{}\n", notice);
  PlanArguments arguments;
  arguments.config = &resolved;
  arguments.plugins = plugins.get();
  arguments.world = options.world > 0 ? options.world : world_size(resolved.run);
  if (!options.hardware.empty()) arguments.hardware = Hardware::load(options.hardware);
  arguments.threads = rank_threads(resolved.run.device, arguments.world);
  arguments.workers = static_cast<int>(auto_threads(1));
  return predict(arguments);
}

}  // namespace

int run_plan(const PlanOptions& options) {
  try {
    const Prediction prediction = predict(options);
    if (!options.svg.empty()) {
      const int chunks = prediction.classes.front().plan.shape.chunks;
      write_output_file(options.svg, draw_svg(prediction.timeline, chunks, prediction.run));
    }
    fmt::print("{}", options.json ? report_json(prediction) + "\n" : report_text(prediction));
    return 0;
  } catch (const Error& error) {
    throw ConfigError(error.what());  // nothing ran: whatever is wrong, the configuration says it
  }
}

void write_output_file(const std::string& file, std::string_view text) {
  std::ofstream out(file, std::ios::binary);
  out << text;
  out.close();
  require(out.good(), "{} cannot be written", file);
}

}  // namespace tessera
