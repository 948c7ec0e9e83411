#pragma once
#include "tessera/device/direct_comm.hpp"
#include "tessera/plugin.hpp"

namespace tessera {

inline constexpr std::string_view kThreads = "threads";

/// Communicator "threads": ranks are threads of one process that share one InProcessStore. Peers
/// read each other's tensors where they are.
class ThreadsCommunicator : public Communicator {
 public:
  using Config = NoConfig;
  static constexpr std::string_view kMemoryKind = kHostMemory;
  ThreadsCommunicator(const Config& config, CommunicatorArguments& arguments);

  std::string_view do_name() const override { return kThreads; }
  std::unique_ptr<GroupBackend> do_create_group(const GroupSpec& spec, Device& device) override {
    return engine_.create_group(spec, device);
  }
  bool do_progress() override { return engine_.progress(); }
  void do_abort(std::string_view reason) noexcept override { engine_.abort(reason); }

 private:
  DirectEngine engine_;
};

/// Registers the communicator that is built in.
void register_threads(Registrar& registrar);

}  // namespace tessera
