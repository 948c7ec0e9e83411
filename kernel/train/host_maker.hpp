#pragma once
#include "kernel/config/resolve.hpp"
#include "kernel/model/build_context.hpp"
#include "kernel/plugin/host.hpp"

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
    return host_.make(kind, type, *config_.node(path), given, arguments);
  }
  std::string origin(const std::string& path, std::string_view key) const override {
    return config_.node(path)->origin(key);
  }

 private:
  const PluginHost& host_;
  const Resolved& config_;
};

}  // namespace tessera
