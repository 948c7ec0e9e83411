#pragma once
#include <memory>
#include <string>
#include <vector>

#include "cuda_event.hpp"
#include "cuda_graph.hpp"
#include "cuda_stream.hpp"
#include "gpu_choice.hpp"
#include "host_tasks.hpp"
#include "pinned_memory.hpp"
#include "tessera/device/device_pool.hpp"
#include "tessera/device/kernel_table.hpp"

namespace tessera::cuda {

/// The name of the device, and of its memory's kind: "cuda", or "cuda_emulated" for the emulator.
extern const std::string_view kDeviceName;

/// Keys of [device].
struct DeviceConfig {
  Auto<i64> index;
  std::string fp32_products = "fp32";
  bool debug = false;
  static void describe(Schema<DeviceConfig>& s);
};

/// A GPU, by CUDA's runtime.
class CudaDevice final : public Device {
 public:
  using Config = DeviceConfig;
  CudaDevice(const Config& config, const DeviceArguments& arguments);
  ~CudaDevice() override;
  static DeviceUnits units() { return visible_gpus(); }
  /// The device, or what stands for it where it is only planned.
  static std::shared_ptr<Device> make(const Config& config, const DeviceArguments& arguments);

  std::string_view name() const override { return kDeviceName; }
  std::string_view memory_kind() const override { return kDeviceName; }
  int threads() const override { return threads_; }
  std::string hardware() const override { return hardware_; }
  DeviceUnit unit() const override { return unit_; }
  Pool& pool() override { return *pool_; }
  MemoryStats memory() const override;
  void reset_peaks() override { pool_->allocator().reset_peaks(); }
  const Kernel* find(std::string_view operation) const override { return kernels_.find(operation); }
  Stream& stream() override { return *streams_[0]; }
  Stream& comm_stream(CommLane lane) override {
    return *streams_[1 + static_cast<std::size_t>(lane)];
  }
  void launch(Stream& stream, const Kernel& kernel, const void* args, Pool& pool) override;
  void launch_host(Stream& stream, std::string_view name, std::function<void()> task) override;
  void launch_host_wait(Stream& stream, std::string_view name, std::function<void()> task) override;
  Event record(Stream& stream, Timing timing = Timing::no) override;
  void wait(Stream& stream, const Event& event) override;
  bool query(const Event& event) override;
  void join(const Event& event, Deadline deadline, std::string_view what) override;
  double elapsed(const Event& begin, const Event& end) override;
  void synchronize(Stream& stream) override;
  void read(const Tensor& tensor, void* host) override;
  void write(const Tensor& tensor, const void* host) override;
  HostBlock host_block(i64 bytes) override;
  void copy_to_host(Stream& stream,
                    const Tensor& tensor,
                    const HostBlock& block,
                    i64 offset = 0) override;
  void copy_from_host(Stream& stream,
                      const Tensor& tensor,
                      const HostBlock& block,
                      i64 offset = 0) override;
  void launch_library(Stream& stream,
                      std::string_view name,
                      const std::function<void(void* native)>& enqueue) override;
  void begin_capture(Stream& stream) override;
  std::unique_ptr<Graph> end_capture(Stream& stream) override;
  void abort_capture() override;
  bool capturing() const override { return capture_ != nullptr; }
  void on_replay(ReplayTask task) override;
  void replay(Graph& graph, Stream& stream) override;

 private:
  /// Runs what a capture does or refuses; an error spoils the capture.
  template <class F>
  auto captured(F f) {
    try {
      return f();
    } catch (const std::exception& error) {
      capture_->invalidate(error.what());
      throw;
    }
  }
  /// Runs calls of CUDA's. An error that stays names what was launched last.
  template <class F>
  auto told(F f) {
    try {
      return f();
    } catch (const Error& error) {
      tell_if_it_stays(error);
      throw;
    }
  }
  void tell_if_it_stays(const Error& error);
  template <class... T>
  void refuse_in_capture(fmt::format_string<T...> what, T&&... values) {
    if (!capture_) return;
    captured([&] { capture_->refuse(fmt::format(what, std::forward<T>(values)...)); });
  }
  bool captures(const Stream& stream) const { return capture_ && capture_->contains(stream); }

  std::shared_ptr<CudaEvent> recorded(Stream& stream, Timing timing = Timing::no);
  std::shared_ptr<CudaEvent> asked(const Event& event, std::string_view call);
  void finish(CudaEvent& event, HostWait& wait);
  void require_tensor(std::string_view call, const Tensor& tensor) const;
  void settle(std::string_view call, const Tensor& tensor, std::string_view what);
  void move(const Tensor& tensor, std::byte* dense, cudaMemcpyKind direction);
  void copy(Stream& stream,
            const Tensor& tensor,
            const HostBlock& block,
            i64 offset,
            cudaMemcpyKind direction);

  int threads_;
  bool debug_, captures_follow_;
  std::string hardware_;
  DeviceUnit unit_;
  KernelTable kernels_;
  LaunchSignatures launched_;  // where captures follow
  std::shared_ptr<EventPool> events_ = std::make_shared<EventPool>();
  std::shared_ptr<TasksDone> tasks_ = std::make_shared<TasksDone>();
  mutable PinnedBlocks pinned_;
  std::vector<std::unique_ptr<CudaStream>> streams_;
  std::unique_ptr<DevicePool> pool_;
  std::unique_ptr<CudaCapture> capture_;  // while capturing
  u64 captures_ = 0;
  std::string last_launch_;       // that was enqueued without an error
  bool told_that_ended_ = false;  // the GPU does nothing more
};

}  // namespace tessera::cuda
