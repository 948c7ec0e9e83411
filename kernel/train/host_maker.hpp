#pragma once
#include <string_view>

#include "kernel/config/resolve.hpp"
#include "kernel/model/build_context.hpp"
#include "kernel/plugin/host.hpp"
#include "tessera/error.hpp"

namespace tessera {

/// Makes components from the resolved configuration with the plugin host.
class HostMaker final : public ComponentMaker {
 public:
  HostMaker(const PluginHost& host, const Resolved& config) : host_(host), config_(config) {}
  using ComponentMaker::make;
  std::shared_ptr<void> make(std::string_view kind,
                             const std::string& type,
                             const std::string& path,
                             const Given& given,
                             void* arguments) override {
    try {
      return host_.make(kind, type, *config_.node(path), given, arguments);
    } catch (const ConfigError& error) {
      // A component names its key, "data.path: …"; where that was written is known here.
      const std::string_view text = error.what();
      const std::string_view named = text.substr(0, text.find(": "));
      if (!named.starts_with(path + ".") || named.find(' ') != named.npos) throw;
      throw ConfigError(origin(path, named.substr(path.size() + 1)) + ": " + error.what());
    }
  }
  std::string origin(const std::string& path, std::string_view key) const override {
    return config_.node(path)->origin(key);
  }

 private:
  const PluginHost& host_;
  const Resolved& config_;
};

}  // namespace tessera
