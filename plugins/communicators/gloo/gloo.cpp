#include <map>

#include <tessera/error.hpp>
#include <tessera/plugin.hpp>

#include "group.hpp"

namespace tessera::gloo_tcp {

namespace {

class GlooCommunicator : public Communicator {
 public:
  static constexpr std::string_view kMemoryKind = kHostMemory;
  static constexpr CommunicatorReach kReach = CommunicatorReach::hosts;
  struct Config {
    Auto<std::string> interface;
    Auto<std::string> bind;
    static void describe(Schema<Config>& s) {
      s.field("interface",
              &Config::interface,
              "network interface over which ranks reach each other, \"eth0\"; \"auto\" is the one "
              "that leads to the store, loopback when that is on this host");
      s.field("bind",
              &Config::bind,
              "address or host name on which this rank listens, instead of an interface");
    }
  };

  GlooCommunicator(const Config& config, CommunicatorArguments& arguments)
      : transport_(std::make_shared<Transport>(arguments, address_of(config))) {}

  std::string_view do_name() const override { return "gloo"; }
  static i64 scratch_bytes(const Collective& collective, int members) {
    return gloo_tcp::scratch_bytes(collective, members);
  }

  std::unique_ptr<GroupBackend> do_create_group(const GroupSpec& spec, Device& device) override {
    auto members = std::make_shared<const Members>(transport_, spec, groups_made_[spec.id]++);
    return std::make_unique<GlooGroup>(std::move(members), device);
  }

  void do_abort(std::string_view reason) noexcept override {
    transport_->fail({transport_->arguments().rank, std::string(reason)});
    transport_->quiesce();
  }

 private:
  static BindAddress address_of(const Config& config) {
    if (config.interface && config.bind) {
      fail_config("communicator gloo: give \"interface\" or \"bind\", not both");
    }
    return {config.bind.value_or(""), config.interface.value_or("")};
  }

  std::shared_ptr<Transport> transport_;
  std::map<int, int> groups_made_;  // by id
};

}  // namespace

}  // namespace tessera::gloo_tcp

TESSERA_PLUGIN(gloo, "0.1.0", "communicator of ranks on several hosts, over TCP") {
  registrar.add<tessera::Communicator, tessera::gloo_tcp::GlooCommunicator>(
      "gloo", "processes on any hosts; collectives over the TCP transport of the Gloo library");
}
