#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/device.hpp"
#include "tessera/operation.hpp"

namespace tessera {

/// A device whose memory the CPU addresses: caching allocator, inline streams, software graphs with
/// CUDA's semantics, and the `deferred` test mode. `reference` and `cpu` derive from it and bring
/// kernels only. A kernel registered for this device's name wins over one for "host".
class TESSERA_API HostDevice : public Device {
 public:
  HostDevice(std::string name, const DeviceArguments& arguments, std::vector<Kernel> own);
  ~HostDevice() override;

  std::string_view name() const override;
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
  Event record(Stream& stream) override;
  void wait(Stream& stream, const Event& event) override;
  void synchronize(Stream& stream) override;
  void read(const Tensor& tensor, void* host) override;
  void write(const Tensor& tensor, const void* host) override;
  void begin_capture(Stream& stream) override;
  std::unique_ptr<Graph> end_capture(Stream& stream) override;
  void abort_capture() override;
  bool capturing() const override;
  void replay(Graph& graph, Stream& stream) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera
