#pragma once
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernel/config/tree.hpp"
#include "kernel/model/build_context.hpp"
#include "kernel/plugin/host.hpp"
#include "tessera/error.hpp"

namespace tessera {

/// Makes components from the tables of a configuration with the plugin host, which outlives it.
class HostMaker final : public ComponentMaker {
 public:
  HostMaker(const PluginHost& host, std::shared_ptr<const ConfigTree> tree)
      : host_(host), tree_(std::move(tree)) {}
  using ComponentMaker::make;
  std::shared_ptr<void> make(std::string_view kind,
                             const std::string& type,
                             const std::string& path,
                             const Given& given,
                             void* arguments) override {
    try {
      std::shared_ptr<void> component =
          host_.make(kind, type, *make_node(tree_, path), given, arguments);
      const std::lock_guard lock(mutex_);
      if (!made_.contains(path)) made_.insert(path);
      return component;
    } catch (const ConfigError& error) {
      // A component names its key, "data.path: …"; where that was written is known here.
      const std::string_view text = error.text();
      const std::string_view named = text.substr(0, text.find(": "));
      if (!named.starts_with(path + ".") || named.find(' ') != named.npos) throw;
      rethrow_with(ErrorFrame::Kind::place, origin(path, named.substr(path.size() + 1)));
    }
  }
  bool made(const std::string& path) const override {
    const std::lock_guard lock(mutex_);
    return made_.contains(path);
  }
  std::string origin(const std::string& path, std::string_view key) const override {
    return make_node(tree_, path)->origin(key);
  }
  std::vector<Kernel> kernels(std::string_view device,
                              std::string_view memory_kind) const override {
    return host_.kernels(device, memory_kind);
  }

 private:
  const PluginHost& host_;
  std::shared_ptr<const ConfigTree> tree_;
  mutable std::mutex mutex_;  // ranks may be threads
  std::set<std::string, std::less<>> made_;
};

}  // namespace tessera
