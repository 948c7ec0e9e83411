// Events, waits, and what crosses between host and device.
#include "sdk/src/host_device/host_device_state.hpp"
#include "sdk/src/shared/strided_copy.hpp"

namespace tessera {

std::shared_ptr<HostEvent> HostDevice::State::asked(const Event& event, std::string_view call) {
  refuse_in_capture("{} of an event", call);
  std::shared_ptr<HostEvent> point = host_event(event);
  require(!point || point->point.capture == 0,
          "{} of an event that was recorded in a capture: it names a point inside a graph; record "
          "an event after replay",
          call);
  return point;
}

Event HostDevice::record(Stream& stream, Timing timing) {
  State& state = *state_;
  if (state.capture && state.capture->contains(stream)) {
    if (timing == Timing::yes) state.refuse_in_capture("record of an event that keeps the time");
    return state.capture->record(stream);
  }
  auto event = std::make_shared<HostEvent>();
  event->timed = timing == Timing::yes;
  event->stream = stream.index();
  if (state.deferred) {
    state.deferred->record(stream, event);
  } else {
    event->reach();
  }
  return {event};
}

void HostDevice::wait(Stream& stream, const Event& event) {
  State& state = *state_;
  const std::shared_ptr<HostEvent> point = host_event(event);
  if (!point) return;  // a point before all work
  if (state.capture && (state.capture->contains(stream) || state.capture->recorded(*point))) {
    state.captured([&] { state.capture->wait(stream, *point); });
    return;
  }
  require(
      point->point.capture == 0,
      "stream \"{}\" waits for an event that was recorded in a capture: it names a point inside "
      "a graph; record an event after replay",
      stream.name());
  if (state.deferred) state.deferred->wait(stream, point);
}

bool HostDevice::query(const Event& event) {
  const std::shared_ptr<HostEvent> point = state_->asked(event, "query");
  const bool reached = !point || (state_->deferred ? state_->deferred->query(*point) : point->done);
  if (reached) check_wait();
  return reached;
}

void HostDevice::join(const Event& event, Deadline deadline, std::string_view what) {
  ++calls_.join;
  const std::shared_ptr<HostEvent> point =
      state_->asked(event, state_->capture ? fmt::format("join(\"{}\")", what) : "join");
  HostWait wait(*this, what, deadline);
  if (point && state_->deferred) state_->deferred->drain_to(*point, [&] { wait.check(); });
  wait.over();
}

double HostDevice::elapsed(const Event& begin, const Event& end) {
  const std::shared_ptr<HostEvent> from = state_->asked(begin, "elapsed");
  const std::shared_ptr<HostEvent> to = state_->asked(end, "elapsed");
  require(from && to && from->timed && to->timed,
          "elapsed between events that keep no time: record both with Timing::yes");
  require(from->done && to->done,
          "elapsed between events that have not both been reached: query or join them first");
  return std::chrono::duration<double>(to->time - from->time).count();
}

void HostDevice::synchronize(Stream& stream) {
  ++calls_.synchronize;
  state_->refuse_in_capture("synchronize(\"{}\")", stream.name());
  if (!state_->deferred) return check_wait();
  const std::string what = fmt::format("the end of stream \"{}\"", stream.name());
  HostWait wait(*this, what);
  state_->deferred->drain(stream, [&] { wait.check(); });
  wait.over();
}

void HostDevice::State::require_tensor(const Device& device,
                                       std::string_view call,
                                       const Tensor& tensor) const {
  require(tensor.defined(), "{} of an undefined tensor", call);
  require(&tensor.device() == &device,
          "{} of a tensor ({}) that is not on device \"{}\"",
          call,
          tensor,
          name);
}

void HostDevice::State::settle(const Device& device,
                               std::string_view call,
                               const Tensor& tensor,
                               HostWait wait) {
  refuse_in_capture("{} of a tensor ({})", call, tensor);
  require_tensor(device, call, tensor);
  if (deferred) deferred->drain(*streams[0], [&] { wait.check(); });
  wait.over();
}

void HostDevice::read(const Tensor& tensor, void* host) {
  ++calls_.read;
  state_->settle(*this, "host read", tensor, HostWait(*this, "the tensor that the host reads"));
  loader(tensor)(host);
}

void HostDevice::write(const Tensor& tensor, const void* host) {
  ++calls_.write;
  state_->settle(*this, "host write", tensor, HostWait(*this, "the tensor that the host writes"));
  store(tensor.arg(), host);
}

HostBlock HostDevice::host_block(i64 bytes) {
  State& state = *state_;
  state.refuse_in_capture("allocation of a host block of {} bytes", bytes);
  auto memory = std::make_shared<HostMemory>(*this, bytes, state.host_bytes);
  ++state.host_blocks_made;
  if (state.deferred) poison_bytes(memory->address(), bytes);
  void* const address = memory->address();
  return {std::move(memory), address, bytes};
}

void HostDevice::State::copy(std::string_view call,
                             Stream& stream,
                             const Tensor& tensor,
                             const HostBlock& block,
                             i64 offset,
                             std::function<void()> task) {
  const HostCopy checked = host_copy(call, tensor, block, offset);
  auto memory = std::static_pointer_cast<HostMemory>(block.owner());
  require(&memory->device() == &stream.device(),
          "{} of {} with a host block of another device than \"{}\"",
          call,
          tensor,
          name);
  if (!capture && !deferred) return task();
  const bool to_host = call == kCopyToHost;
  const auto made = HostTask::copy(fmt::format("{} of {}", call, tensor),
                                   std::move(task),
                                   std::move(memory),
                                   to_host ? checked.block : nullptr,
                                   tensor.bytes());
  if (capture) {
    capture->require_contains(stream, fmt::format("{} of {}", call, tensor));
    capture->add(stream, made);
  } else {
    deferred->push(stream, made);
  }
}

void HostDevice::copy_to_host(Stream& stream,
                              const Tensor& tensor,
                              const HostBlock& block,
                              i64 offset) {
  state_->may_capture([&] {
    state_->require_tensor(*this, kCopyToHost, tensor);
    state_->copy(kCopyToHost,
                 stream,
                 tensor,
                 block,
                 offset,
                 [load = loader(tensor), to = block.address() + offset] { load(to); });
  });
}

void HostDevice::copy_from_host(Stream& stream,
                                const Tensor& tensor,
                                const HostBlock& block,
                                i64 offset) {
  state_->may_capture([&] {
    state_->require_tensor(*this, kCopyFromHost, tensor);
    state_->copy(kCopyFromHost,
                 stream,
                 tensor,
                 block,
                 offset,
                 [this, to = tensor.arg(), from = block.address() + offset] { store(to, from); });
  });
}

HostDevice::Load HostDevice::loader(const Tensor& tensor) const {
  return [from = tensor.arg()](void* dense) { copy_to_dense(from, dense); };
}
void HostDevice::store(const TensorArg& tensor, const void* dense) {
  copy_from_dense(tensor, dense);
}

}  // namespace tessera
