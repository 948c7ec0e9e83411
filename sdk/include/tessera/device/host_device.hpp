#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/device/device.hpp"
#include "tessera/operation.hpp"

namespace tessera {

/// A device whose memory the CPU addresses: caching allocator, inline streams, software graphs with
/// CUDA's semantics, and the `deferred` test mode. `reference` and `cpu` derive from it and bring
/// kernels only. A kernel registered for this device's name wins over one for "host". The thread
/// that makes it is its rank's; the device sets how many CPU threads that one works with.
class TESSERA_API HostDevice : public Device {
 public:
  HostDevice(std::string name, const DeviceArguments& arguments, std::vector<Kernel> own);
  ~HostDevice() override;

  std::string_view name() const override;
  std::string_view memory_kind() const override { return kHostMemory; }
  int threads() const override;
  Pool& pool() override;
  MemoryStats memory() const override;
  void reset_peaks() override;
  const Kernel* find(std::string_view operation) const override;
  Stream& stream() override;
  Stream& comm_stream(CommLane lane) override;
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
  void begin_capture(Stream& stream) override;
  std::unique_ptr<Graph> end_capture(Stream& stream) override;
  void abort_capture() override;
  bool capturing() const override;
  void on_replay(ReplayTask task) override;
  void replay(Graph& graph, Stream& stream) override;

 protected:
  /// Copies a tensor to dense host memory, in row-major order, when its turn comes; in a graph, at
  /// each replay.
  using Load = std::function<void(void* dense)>;
  virtual Load loader(const Tensor& tensor) const;
  /// Copies back. For a device whose tensors have only addresses.
  virtual void store(const TensorArg& tensor, const void* dense);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera
