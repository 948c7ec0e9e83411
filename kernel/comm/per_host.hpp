#pragma once
#include <functional>
#include <memory>
#include <string>

#include "kernel/comm/hosts.hpp"
#include "tessera/device/communicator.hpp"

namespace tessera {

/// Makes a communicator of some type.
using MakeCommunicator = std::function<std::shared_ptr<Communicator>(CommunicatorArguments&)>;

/// Two communicators as one: groups whose members share a host use `within`, which joins only the
/// ranks of this host and has the tensors' memory; all other groups use `between`, which joins all
/// ranks and must move on by itself once members have posted (README.md says why).
class PerHostCommunicator : public Communicator {
 public:
  PerHostCommunicator(const Hosts& hosts,
                      const CommunicatorArguments& arguments,
                      const MakeCommunicator& make_within,
                      const MakeCommunicator& make_between);
  ~PerHostCommunicator() override;

  std::string_view do_name() const override { return name_; }
  std::string_view do_memory_kind() const override { return between_->memory_kind(); }
  std::unique_ptr<GroupBackend> do_create_group(const GroupSpec& spec, Device& device) override;
  std::shared_ptr<MemorySource> do_memory() override;
  bool do_progress() override;
  void do_check() override;
  void do_abort(std::string_view reason) noexcept override;

 private:
  Hosts hosts_;
  std::unique_ptr<Store> local_store_;
  std::shared_ptr<Communicator> within_;  // none where this rank is alone on its host
  std::shared_ptr<Communicator> between_;
  std::string name_;
};

}  // namespace tessera
