#include "nccl.hpp"

#include <memory>

#include "group.hpp"

namespace tessera::nccl {

namespace {

// One that is emulated joins threads of one process only: "auto" must not take it.
#ifdef TESSERA_CUDA_EMULATED
constexpr CommunicatorReach kReached = CommunicatorReach::unstated;
#else
constexpr CommunicatorReach kReached = CommunicatorReach::hosts;
#endif

class NcclCommunicator final : public Communicator {
 public:
  using Config = NoConfig;
  static constexpr std::string_view kMemoryKind = kTensorMemory;
  static constexpr CommunicatorReach kReach = kReached;

  NcclCommunicator(const Config&, CommunicatorArguments& arguments)
      : world_(std::make_shared<World>(arguments)) {}

 private:
  std::string_view do_name() const override { return kName; }
  std::string do_library() const override { return world_->library().name(); }
  std::string_view do_memory_kind() const override { return kTensorMemory; }
  std::unique_ptr<GroupBackend> do_create_group(const GroupSpec& spec, Device& device) override {
    return std::make_unique<NcclGroup>(world_, spec, device);
  }
  void do_check() override { world_->watchdog().check(); }
  void do_abort(std::string_view reason) noexcept override {
    const i64 rank = world_->arguments().number(world_->arguments().rank);
    world_->watchdog().fail(Error(reason, ErrorKind::own, rank));
  }

  std::shared_ptr<World> world_;
};

}  // namespace

void add(Registrar& registrar) {
  registrar.add<Communicator, NcclCommunicator>(
      kName, "ranks on GPUs of any hosts; collectives by NVIDIA's NCCL, on the device's streams");
}

}  // namespace tessera::nccl
