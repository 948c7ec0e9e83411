#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tessera/device_pool.hpp"
#include "tessera/host_device.hpp"

namespace tessera {

/// Stands for another device without its memory or its work: the same allocator, categories and
/// peaks over addresses that have no memory; the same operations, whose kernels are asked for
/// their workspace, which is taken and given back, and then not launched. Shapes, errors and memory
/// of a program are those of a real run; values are not.
///
/// What the host reads, at once or by a copy to a host block, is a declared assumption: what
/// assume() said of that memory since it was allocated, and zeros elsewhere. What the host writes
/// is dropped.
class MetaDevice final : public HostDevice {
 public:
  /// Told of every launch, in order.
  using OnLaunch = std::function<void(const Kernel& kernel, const void* args)>;

  /// `imbalance`: assumed_imbalance().
  explicit MetaDevice(std::shared_ptr<Device> stands_for,
                      OnLaunch on_launch = {},
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
  void assume(const Tensor& tensor, const void* host) override;
  double assumed_imbalance() const override { return imbalance_; }

 protected:
  void load(const TensorArg& tensor, void* dense) const override;
  void store(const TensorArg&, const void*) override {}

 private:
  /// Assumptions by the address that they begin at; none overlap.
  using Assumptions = std::map<const std::byte*, std::vector<std::byte>>;
  void forget(const void* address, i64 bytes);

  std::shared_ptr<Device> stands_for_;
  OnLaunch on_launch_;
  double imbalance_;
  Assumptions assumed_;
  DevicePool pool_;
  mutable std::map<std::string, Kernel, std::less<>> kernels_;  // those that were looked up
};

}  // namespace tessera
