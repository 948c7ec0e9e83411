// Events, waits, and what crosses between host and GPU.
#include <fmt/format.h>

#include <chrono>
#include <thread>

#include "cuda_device.hpp"
#include "tessera/error.hpp"
#include "tessera/ops/elementwise.hpp"

namespace tessera::cuda {
namespace {

/// A waiting host first lets others go on between two questions, then sleeps.
class Pause {
 public:
  void operator()() {
    if (++asked_ < kAtOnce) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }

 private:
  static constexpr int kAtOnce = 1000;
  int asked_ = 0;
};

}  // namespace

std::shared_ptr<CudaEvent> CudaDevice::recorded(Stream& stream, Timing timing) {
  auto event = std::make_shared<CudaEvent>(events_, timing);
  told([&] { event->record(handle(stream)); });
  return event;
}

Event CudaDevice::record(Stream& stream, Timing timing) {
  if (!captures(stream)) return {recorded(stream, timing)};
  if (timing == Timing::yes) refuse_in_capture("record of an event that keeps the time");
  return captured([&] {
    auto event = recorded(stream);
    event->point = capture_->record(stream);
    return Event{event};
  });
}

void CudaDevice::wait(Stream& stream, const Event& event) {
  const std::shared_ptr<CudaEvent> point = cuda_event(event);
  if (!point) return;  // a point before all work
  const auto wait = [&] {
    check(cudaStreamWaitEvent(handle(stream), point->handle(), 0), "cudaStreamWaitEvent");
  };
  if (capture_ && (capture_->contains(stream) || capture_->recorded(point->point))) {
    captured([&] {
      if (capture_->wait(stream, point->point)) wait();
    });
    return;
  }
  require(
      point->point.capture == 0,
      "stream \"{}\" waits for an event that was recorded in a capture: it names a point inside "
      "a graph; record an event after replay",
      stream.name());
  wait();
}

/// The point that the host asks for; nullptr for the point before all work.
std::shared_ptr<CudaEvent> CudaDevice::asked(const Event& event, std::string_view call) {
  refuse_in_capture("{} of an event", call);
  std::shared_ptr<CudaEvent> point = cuda_event(event);
  require(!point || point->point.capture == 0,
          "{} of an event that was recorded in a capture: it names a point inside a graph; record "
          "an event after replay",
          call);
  return point;
}

bool CudaDevice::query(const Event& event) {
  const std::shared_ptr<CudaEvent> point = asked(event, "query");
  const bool reached = !point || told([&] { return point->reached(); });
  tasks_->rethrow();
  if (reached) check_wait();
  return reached;
}

void CudaDevice::finish(CudaEvent& event, HostWait& wait) {
  Pause pause;
  while (!told([&] { return event.reached(); })) {
    wait.check();
    pause();
  }
  wait.over();
}

void CudaDevice::join(const Event& event, Deadline deadline, std::string_view what) {
  ++calls_.join;
  const std::shared_ptr<CudaEvent> point =
      asked(event, capture_ ? fmt::format("join(\"{}\")", what) : "join");
  HostWait wait(*this, what, deadline);
  if (point) {
    finish(*point, wait);
  } else {
    wait.over();
  }
  tasks_->rethrow();
}

double CudaDevice::elapsed(const Event& begin, const Event& end) {
  const std::shared_ptr<CudaEvent> from = asked(begin, "elapsed"), to = asked(end, "elapsed");
  require(from && to && from->timed() && to->timed(),
          "elapsed between events that keep no time: record both with Timing::yes");
  require(from->reached() && to->reached(),
          "elapsed between events that have not both been reached: query or join them first");
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, from->handle(), to->handle()), "cudaEventElapsedTime");
  return static_cast<double>(milliseconds) / 1000;
}

void CudaDevice::synchronize(Stream& stream) {
  ++calls_.synchronize;
  refuse_in_capture("synchronize(\"{}\")", stream.name());
  const std::string what = fmt::format("the end of stream \"{}\"", stream.name());
  HostWait wait(*this, what);
  finish(*recorded(stream), wait);
  tasks_->rethrow();
}

void CudaDevice::require_tensor(std::string_view call, const Tensor& tensor) const {
  require(tensor.defined(), "{} of an undefined tensor", call);
  require(&tensor.device() == this,
          "{} of a tensor ({}) that is not on device \"{}\"",
          call,
          tensor,
          kDeviceName);
}

/// Call before the host reads or writes a tensor: completes what was enqueued.
void CudaDevice::settle(std::string_view call, const Tensor& tensor, std::string_view what) {
  refuse_in_capture("{} of a tensor ({})", call, tensor);
  require_tensor(call, tensor);
  HostWait wait(*this, what);
  finish(*recorded(*streams_[0]), wait);
  tasks_->rethrow();
}

/// Copies between a tensor and dense memory of the host, and waits for it.
void CudaDevice::move(const Tensor& tensor, std::byte* dense, cudaMemcpyKind direction) {
  if (tensor.bytes() == 0) return;
  Stream& stream = *streams_[0];
  const bool to_host = direction == cudaMemcpyDeviceToHost;
  Tensor rows = tensor;
  const auto copy_rows = [&](const Tensor& from, const Tensor& to) {
    CopyArgs args;
    args.x = from.arg();
    args.out = to.arg();
    Operation<CopyArgs>(*this).launch(stream, *pool_, args);
  };
  if (!tensor.dense()) {
    rows = Tensor::allocate(
        *this, *pool_, stream, tensor.shape(), tensor.dtype(), Category::communication);
    if (to_host) copy_rows(tensor, rows);
  }
  void* address = rows.arg().address;
  told([&] {
    check(cudaMemcpyAsync(to_host ? static_cast<void*>(dense) : address,
                          to_host ? address : static_cast<void*>(dense),
                          static_cast<std::size_t>(tensor.bytes()),
                          direction,
                          handle(stream)),
          "cudaMemcpyAsync");
  });
  if (!tensor.dense() && !to_host) copy_rows(rows, tensor);
  HostWait wait(*this, "a copy between host and GPU");
  finish(*recorded(stream), wait);
}

void CudaDevice::read(const Tensor& tensor, void* host) {
  ++calls_.read;
  settle("host read", tensor, "the tensor that the host reads");
  move(tensor, static_cast<std::byte*>(host), cudaMemcpyDeviceToHost);
}

void CudaDevice::write(const Tensor& tensor, const void* host) {
  ++calls_.write;
  settle("host write", tensor, "the tensor that the host writes");
  move(tensor,
       static_cast<std::byte*>(const_cast<void*>(host)),  // NOLINT(*-const-cast): only read
       cudaMemcpyHostToDevice);
}

HostBlock CudaDevice::host_block(i64 bytes) {
  refuse_in_capture("allocation of a host block of {} bytes", bytes);
  return pinned_.make(bytes);
}

void CudaDevice::copy(Stream& stream,
                      const Tensor& tensor,
                      const HostBlock& block,
                      i64 offset,
                      cudaMemcpyKind direction) {
  const bool to_host = direction == cudaMemcpyDeviceToHost;
  const std::string_view call = to_host ? "copy_to_host" : "copy_from_host";
  const auto enqueue = [&] {
    require_tensor(call, tensor);
    const HostCopy checked = host_copy(call, tensor, block, offset);
    auto memory = std::static_pointer_cast<PinnedMemory>(block.owner());
    require(&memory->device() == this,
            "{} of {} with a host block of another device than \"{}\"",
            call,
            tensor,
            kDeviceName);
    if (capture_) {
      capture_->require_contains(stream, fmt::format("{} of {}", call, tensor));
      capture_->add(stream);
      ++capture_->parts.launches;
      capture_->parts.blocks.push_back(memory);
    }
    if (checked.rows == 0) return;
    void* const to = to_host ? static_cast<void*>(checked.block) : checked.tensor;
    const void* const from = to_host ? checked.tensor : static_cast<const void*>(checked.block);
    const auto width = static_cast<std::size_t>(checked.row_bytes);
    if (checked.rows == 1) {  // a pitch, even of one row, may not be 2 GiB
      check(cudaMemcpyAsync(to, from, width, direction, handle(stream)), "cudaMemcpyAsync");
    } else {
      const auto pitch = static_cast<std::size_t>(checked.pitch);
      check(cudaMemcpy2DAsync(to,
                              to_host ? width : pitch,
                              from,
                              to_host ? pitch : width,
                              width,
                              static_cast<std::size_t>(checked.rows),
                              direction,
                              handle(stream)),
            "cudaMemcpy2DAsync");
    }
    if (!capture_) memory->used_until(stream.index(), recorded(stream));
  };
  if (capture_) {
    captured(enqueue);
  } else {
    told(enqueue);
  }
}

void CudaDevice::copy_to_host(Stream& stream,
                              const Tensor& tensor,
                              const HostBlock& block,
                              i64 offset) {
  copy(stream, tensor, block, offset, cudaMemcpyDeviceToHost);
}
void CudaDevice::copy_from_host(Stream& stream,
                                const Tensor& tensor,
                                const HostBlock& block,
                                i64 offset) {
  copy(stream, tensor, block, offset, cudaMemcpyHostToDevice);
}

}  // namespace tessera::cuda
