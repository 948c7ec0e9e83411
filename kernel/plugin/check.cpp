#include "kernel/plugin/check.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <string_view>

#include "kernel/plugin/collector.hpp"
#include "kernel/plugin/guarded_child.hpp"
#include "kernel/plugin/library.hpp"
#include "kernel/plugin/origin.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace {

// The child tells what it is about to do, so that a crash can be placed.
constexpr std::string_view kStageMark = "@stage ";
constexpr std::string_view kErrorMark = "@error\n";
constexpr std::string_view kLast = "leaving";  // nothing but static destructors comes after it

void say(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

void stage(std::string_view doing) { say(fmt::format("{}{}\n", kStageMark, doing)); }

std::string contents(const PluginOrigin& origin, const Collector& collected) {
  std::string text = fmt::format("{}: plugin {} {}, {}\n  fits SDK ABI {}",
                                 origin.path.string(),
                                 origin.name,
                                 origin.version,
                                 origin.summary,
                                 origin.stamp);
  for (const ComponentInfo& info : collected.components) {
    text += fmt::format("\n  {}/{}: {}", info.kind, info.type, info.doc);
  }
  for (const DeviceKernel& entry : collected.kernels) {
    text += fmt::format("\n  kernel {} on {}", entry.kernel.operation, entry.device);
  }
  return text;
}

// The pipe is its standard output.
GuardedChild start(const std::string& program, const std::string& file) {
  const GuardedChild child = fork_guarded();
  if (!child.is_here()) return child;
  dup2(child.pipe(), STDOUT_FILENO);
  execl(program.c_str(),
        program.c_str(),
        "plugins",
        kPluginCheckCommand,
        file.c_str(),
        static_cast<char*>(nullptr));
  _exit(127);
}

using Clock = std::chrono::steady_clock;

// Takes the stage lines out of `text`; returns the last stage.
std::string take_stages(std::string& text) {
  std::string last = "starting";
  std::string rest;
  for (std::string_view left = text; !left.empty();) {
    const std::string_view line = left.substr(0, left.find('\n'));
    left.remove_prefix(std::min(line.size() + 1, left.size()));
    if (line.starts_with(kStageMark)) {
      last = line.substr(kStageMark.size());
    } else {
      rest.append(line).append("\n");
    }
  }
  if (!rest.empty()) rest.pop_back();
  text = rest;
  return last;
}

}  // namespace

PluginCheck check_plugin(const std::filesystem::path& program,
                         const std::filesystem::path& file,
                         std::chrono::milliseconds timeout) {
  const std::string path = std::filesystem::absolute(file).lexically_normal().string();
  constexpr std::chrono::milliseconds kLook(100);
  GuardedChild child = start(program.string(), path);
  std::string text;
  const auto deadline = Clock::now() + timeout;
  bool ended = false;
  while (!ended && Clock::now() < deadline) {
    ended = child.listen(text, kLook) == GuardedChild::News::ended;
  }
  if (!ended) child.end();
  const std::string doing = take_stages(text);
  if (!ended) {
    return {PluginCheck::hung,
            fmt::format("plugin error: {}: did not finish {} within {} s",
                        path,
                        doing,
                        static_cast<double>(timeout.count()) / 1000)};
  }
  const int status = child.status();
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    return {PluginCheck::crashed,
            fmt::format("plugin error: {}: crashed in {}: SIG{}, {}",
                        path,
                        doing,
                        sigabbrev_np(signal),
                        sigdescr_np(signal))};
  }
  if (const auto at = text.find(kErrorMark); at != std::string::npos) {
    return {PluginCheck::bad, "plugin error: " + text.substr(at + kErrorMark.size())};
  }
  // A library that ends the process before the check's end has not been checked.
  if (WEXITSTATUS(status) != 0 || doing != kLast) {
    return {PluginCheck::bad,
            fmt::format("plugin error: {}: the process ended in {} with exit code {}",
                        path,
                        doing,
                        WEXITSTATUS(status))};
  }
  return {PluginCheck::good, text};
}

int run_plugin_check_child(const std::filesystem::path& file) {
  try {
    stage("loading (its static constructors)");
    const Library library = load_library(file);
    const PluginDescriptor& d = *library.descriptor;
    const PluginOrigin origin = {
        d.name, d.version, d.summary, library.path, d.abi_stamp, library.hash};
    stage("the registration");
    Collector collected;
    call_plugin(origin, "the registration", "", [&] { d.register_all(collected); });
    stage("checking its components");
    for (const ComponentInfo& info : collected.components) {
      call_plugin(origin, info.kind + "/" + info.type, "", [&] { check_fields(info.fields); });
    }
    require(!collected.components.empty() || !collected.kernels.empty(),
            "{}: registers nothing",
            library.path.string());
    say(contents(origin, collected) + "\n");
    stage(kLast);
    return 0;
  } catch (const Error& error) {
    say(fmt::format("{}{}\n", kErrorMark, error.what()));
    return 1;
  }
}

}  // namespace tessera
