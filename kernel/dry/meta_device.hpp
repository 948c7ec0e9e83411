#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tessera/device/device_pool.hpp"
#include "tessera/device/host_device.hpp"

namespace tessera {

/// Stands for another device without its memory or its work: the same allocator, categories and
/// peaks over addresses that have no memory; the same operations, whose kernels are asked for
/// their workspace, which is taken and given back, and then not launched. Shapes, errors and memory
/// of a program are those of a real run; values are not.
///
/// What the host reads, at once or by a copy to a host block, is a declared assumption: what
/// assume() said of that tensor, by any handle that shares its memory, and zeros elsewhere. Another
/// tensor that later lies at the same address has none of it; a graph that copies the tensor to the
/// host keeps its assumption. What the host writes is dropped.
class MetaDevice final : public HostDevice {
 public:
  /// Told of every launch, in order.
  using OnLaunch = std::function<void(const Kernel& kernel, const void* args)>;

  /// Told of every copy to a host block.
  using OnRead = std::function<void(const TensorArg& tensor)>;
  /// Kernels that a real device would have run so far, in replays and in all.
  struct Launches {
    i64 all = 0, replayed = 0;
  };

  /// `imbalance`: assumed_imbalance().
  explicit MetaDevice(std::shared_ptr<Device> stands_for,
                      OnLaunch on_launch = {},
                      OnRead on_read = {},
                      std::function<void()> replayed = {},
                      double imbalance = 1);
  ~MetaDevice() override;

  std::string_view memory_kind() const override { return stands_for_->memory_kind(); }
  int threads() const override { return stands_for_->threads(); }
  Pool& pool() override { return pool_; }
  MemoryStats memory() const override;
  void reset_peaks() override { pool_.allocator().reset_peaks(); }
  const Kernel* find(std::string_view operation) const override;
  void launch_host(Stream& stream, std::string_view name, std::function<void()> task) override;
  void launch_host_wait(Stream& stream, std::string_view name, std::function<void()> task) override;
  void copy_to_host(Stream& stream,
                    const Tensor& tensor,
                    const HostBlock& block,
                    i64 offset = 0) override;
  void replay(Graph& graph, Stream& stream) override;
  void assume(const Tensor& tensor, const void* host) override;
  double assumed_imbalance() const override { return imbalance_; }
  bool replaying() const { return replaying_; }
  /// Under capture: each replay calls `event`. Host tasks of a device that is not there are not
  /// called.
  void add_event(Stream& stream, std::function<void()> event);
  const Launches& launches() const { return launches_; }

 protected:
  Load loader(const Tensor& tensor) const override;
  void store(const TensorArg&, const void*) override {}

 private:
  /// What was assumed about one tensor's memory.
  class Assumptions;
  std::shared_ptr<Assumptions> about(const Tensor& tensor) const;

  std::shared_ptr<Device> stands_for_;
  OnLaunch on_launch_;
  OnRead on_read_;
  std::function<void()> replayed_;
  double imbalance_;
  mutable Launches launches_;  // counted by kernels that find() made
  bool replaying_ = false;
  mutable std::map<std::weak_ptr<const void>, std::shared_ptr<Assumptions>, std::owner_less<>>
      assumed_;  // by the memory of tensors that are alive
  DevicePool pool_;
  mutable std::map<std::string, Kernel, std::less<>> kernels_;  // those that were looked up
};

}  // namespace tessera
