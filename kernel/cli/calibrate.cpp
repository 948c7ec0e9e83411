#include "kernel/planner/calibrate.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>

#include "kernel/cli/commands.hpp"
#include "kernel/cli/show.hpp"
#include "kernel/comm/communicators.hpp"
#include "kernel/config/choose_device.hpp"
#include "kernel/config/run_config.hpp"
#include "kernel/launch/environment.hpp"
#include "kernel/launch/open_plugins.hpp"
#include "kernel/system/limits.hpp"
#include "tessera/device/communicator.hpp"
#include "tessera/error.hpp"
#include "tessera/io/written.hpp"
#include "tessera/log.hpp"

namespace tessera {

namespace {

constexpr int kSharingRanks = 2;  // ranks that share a host, where the user gives no number

std::string device_of(const CalibrateOptions& options, const PluginHost& plugins) {
  const std::string usual = RunConfig().device.device.type;
  if (options.device != "auto") return options.device.empty() ? usual : options.device;
  const auto [type, why] = choose_by_units(plugins, Device::kKind, usual);
  show_error("--device auto is \"{}\" here: {}\n", type, why);
  return type;
}

}  // namespace

int run_calibrate(const CalibrateOptions& options) {
  const auto plugins = open_plugins({options.path.begin(), options.path.end()});
  CalibrateArguments arguments;
  arguments.plugins = plugins.get();
  arguments.device = device_of(options, *plugins);
  const ComponentInfo* component = plugins->find(Device::kKind, arguments.device);
  if (component == nullptr) fail_unknown_component(*plugins, "device/" + arguments.device);
  const AutoCommunicators links =
      auto_communicators(plugins->of_kind(Communicator::kKind), kHostMemory);
  arguments.within = links.within;
  arguments.between = links.between;
  const bool on_host = has_host_memory(arguments);
  arguments.ranks = options.ranks > 0 ? options.ranks
                    : on_host         ? kSharingRanks
                                      : 1;  // each has a unit to itself
  if (component->units != nullptr) {
    const DeviceUnits units = plugins->units(*component);
    arguments.ranks_per_host = units.count;
    if (units.count < arguments.ranks) {
      fail_config("device \"{}\": {}, and --ranks is {}: each rank needs a unit of its own",
                  arguments.device,
                  units.text,
                  arguments.ranks);
    }
  }
  arguments.threads =
      options.threads > 0 ? options.threads : rank_threads(DeviceSection(), arguments.ranks);
  require_threads(arguments.threads);
  arguments.name = !options.name.empty() ? options.name
                   : on_host ? fmt::format("a host measured with {} rank{} of {} thread{}",
                                           arguments.ranks,
                                           arguments.ranks == 1 ? "" : "s",
                                           arguments.threads,
                                           arguments.threads == 1 ? "" : "s")
                             : "one rank on " + arguments.device;
  if (!options.out.empty()) {  // before the work
    const auto folder = std::filesystem::absolute(options.out).parent_path();
    require(std::filesystem::is_directory(folder), "there is no folder {}", written_path(folder));
  }
  const Calibration measured = calibrate(arguments);
  constexpr double kBusy = 2;
  if (measured.unevenness > kBusy) {
    log_warning(
        "the host was busy: the same work took up to {:.1f} times as long as at its fastest; "
        "calibrate again when nothing else runs",
        measured.unevenness);
  }
  const std::string table = hardware_toml(measured);
  if (options.out.empty()) {
    show_exact(table);
  } else {
    write_output_file(options.out, table);
    show("{} written: `tessera plan CONFIG --hardware {}`\n", options.out, options.out);
  }
  return 0;
}

}  // namespace tessera
