#pragma once
#include <memory>
#include <string>

#include "tessera/device/communicator.hpp"

namespace tessera {

class BlockCache;

/// `comm.staged`: a communicator of the host's memory for a device with memory of its own. What
/// ranks exchange is copied through host blocks of the device, and peers are waited for on the
/// rank's thread, never on the device (README.md, "Staged"). So ranks may share a GPU.
class StagedCommunicator final : public Communicator {
 public:
  /// `inner` has host groups. Throws ConfigError where it carries tensors of the device as they
  /// are, or not those of the host (check_memory_kinds).
  StagedCommunicator(std::shared_ptr<Communicator> inner, const Device& device);
  ~StagedCommunicator() override;

  std::string_view do_name() const override { return name_; }
  std::string_view do_memory_kind() const override { return memory_kind_; }
  /// Throws ConfigError when the group of `inner` is no host group. The device outlives the group.
  std::unique_ptr<GroupBackend> do_create_group(const GroupSpec& spec, Device& device) override;
  std::string do_library() const override { return inner_->library(); }
  bool do_progress() override { return inner_->progress(); }
  void do_check() override { inner_->check(); }
  void do_abort(std::string_view reason) noexcept override { inner_->abort(reason); }

 private:
  std::shared_ptr<Communicator> inner_;
  std::string name_, memory_kind_;
  std::weak_ptr<BlockCache> blocks_;  // of all groups; goes with them, before the device
};

}  // namespace tessera
