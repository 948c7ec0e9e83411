#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "kernel/comm/control_plane/control_plane.hpp"
#include "kernel/config/resolve.hpp"
#include "kernel/launch/environment.hpp"
#include "kernel/plugin/host.hpp"
#include "kernel/train/setup/make_rank.hpp"
#include "kernel/train/setup/run_setup.hpp"

namespace tessera {

/// What the commands share whose ranks work together: `train` and `generate`.

/// Configuration and plugins of the ranks, checked; the same on every one.
struct Opened {
  std::shared_ptr<PluginHost> plugins;
  Resolved config;
};

/// Checks on this host before our launcher starts so many ranks: one of them would find out only
/// after all others have started. Throw ConfigError.
void check_processors(const Opened& opened, i64 world);
void check_units(const Opened& opened, i64 world);

std::chrono::milliseconds seconds(double seconds);
/// The ranks that have joined, for texts.
ControlPlane plane_of(const Opened& opened, const RankIdentity& identity);
/// Settles what joins the ranks, once it is known where they are. Returns it for people.
std::string choose_links(const Opened& opened, const RunSetup& setup, RankIdentity& identity);

/// Called with a failure before the peers are told to stop.
using RankFailed = std::function<void(const std::exception&)>;

/// What a command does as one rank of several.
struct RankWork {
  std::function<Opened()> open;
  /// Called before the others are waited for: where ranks are too few or too many, they may never
  /// come. Returns the file that ranks which fail write what they did last into; empty: none.
  std::function<std::string(const Opened&)> begin;
  /// Called once all have come with the same configuration, plugins and threads. The identity has
  /// all but what joins the ranks. Returns the exit code.
  std::function<int(const Opened&, RankIdentity&, const RankFailed&)> run;
};

/// A rank among several, started by our launcher or by another one: meets the others and does its
/// work. Returns the exit code; an error is printed by our launcher, or here.
int join_ranks(const RankEnvironment& environment, const RankWork& work);

}  // namespace tessera
