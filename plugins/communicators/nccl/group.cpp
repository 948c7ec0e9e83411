#include "group.hpp"

#include <utility>

namespace tessera::nccl {

namespace {

class Enqueued final : public PendingCollective {
 public:
  Enqueued(Device& device, Stream& lane, CallName name)
      : device_(device), lane_(lane), name_(name), end_(device.record(lane)) {}
  void do_wait(Stream& stream) override {
    if (&stream != &lane_) device_.wait(stream, end_);
  }
  // What ends a wait in vain is the watchdog, by the device's wait check.
  void do_join() override { device_.join(end_, kNoDeadline, name_.view()); }

 private:
  Device& device_;
  Stream& lane_;
  CallName name_;
  Event end_;
};

// Calls in between are one launch; NCCL makes progress on all of them together.
class OneLaunch {
 public:
  explicit OneLaunch(const Library& library) : library_(library) { library_.group_start(); }
  ~OneLaunch() {
    if (!ended_) library_.group_end();
  }
  OneLaunch(const OneLaunch&) = delete;
  OneLaunch& operator=(const OneLaunch&) = delete;
  int end() {
    ended_ = true;
    return library_.group_end();
  }

 private:
  const Library& library_;
  bool ended_ = false;
};

int type_of(DType dtype) {
  switch (dtype) {
    case DType::fp64:
      return kFp64;
    case DType::fp32:
      return kFp32;
    case DType::fp16:
      return kFp16;
    case DType::bf16:
      return kBf16;
    case DType::i64:
      return kI64;
    case DType::i32:
      return kI32;
    case DType::u8:
    case DType::boolean:
      return kU8;
  }
  fail("NCCL reduces no values of {}", dtype_name(dtype));
}

int reduction_of(ReduceOp op) {
  return op == ReduceOp::sum ? kSum : op == ReduceOp::max ? kMax : kMin;
}

std::size_t count_of(const TensorArg& tensor) {
  return static_cast<std::size_t>(tensor.elements());
}
std::size_t bytes_of(const TensorArg& tensor) { return static_cast<std::size_t>(tensor.bytes()); }

}  // namespace

NcclGroup::NcclGroup(std::shared_ptr<World> world, const GroupSpec& spec, Device& device)
    : world_(std::move(world)),
      spec_(std::make_shared<const GroupSpec>(spec)),
      links_(world_->links_of(spec)),
      device_(device),
      lane_(device.comm_stream(spec.lane)),
      mark_(Tensor::allocate(
          device, device.pool(), lane_, {1}, DType::i32, Category::communication)) {}

std::shared_ptr<PendingCollective> NcclGroup::do_start(Collective collective, Stream& after) {
  Watchdog& watchdog = world_->watchdog();
  watchdog.check();
  CollectivePlace place{world_->arguments().number(world_->arguments().rank),
                        spec_,
                        collective.kind,
                        collective.name};
  if (!moves_parts(collective.kind)) place.number = collectives_++;
  if (&after != &lane_) device_.wait(lane_, device_.record(after));
  const bool captured = device_.capturing();
  device_.launch_library(lane_, collective.name.view(), [&](void* native) {
    auto* const stream = static_cast<cudaStream_t>(native);
    const bool first = !std::exchange(links_->used, true);
    if (!captured) watchdog.begin(stream, place, first);
    enqueue(collective, stream, first);
    if (!captured) watchdog.end(stream);
  });
  if (captured) {
    const auto at = [](Stream& stream) { return static_cast<cudaStream_t>(stream.native()); };
    device_.on_replay(
        {.before = [&watchdog, at, place](Stream& s) { watchdog.begin_replay(at(s), place); },
         .after = [&watchdog, at](Stream& s) { watchdog.end_replay(at(s)); }});
  }
  return std::make_shared<Enqueued>(device_, lane_, collective.name);
}

// Values that only move are bytes, whatever their dtype.
void NcclGroup::enqueue(const Collective& c, cudaStream_t stream, bool first) {
  const Library& nccl = world_->library();
  {
    const Links::Inside inside(*links_, world_->watchdog());
    OneLaunch launch(nccl);
    add(c, inside.comm(), stream);
    call(launch.end(), "ncclGroupEnd");
  }
  // A call that goes on has not launched yet: an event recorded now would come before it. The first
  // one connects.
  const CommunicatorArguments& arguments = world_->arguments();
  world_->settle(*links_, "ncclGroupEnd", first ? arguments.init_timeout : arguments.timeout);
}

void NcclGroup::add(const Collective& c, Comm* comm, cudaStream_t stream) {
  const Library& nccl = world_->library();
  switch (c.kind) {
    case CollectiveKind::all_reduce:
      call(nccl.all_reduce(c.input.address,
                           c.input.address,
                           count_of(c.input),
                           type_of(c.input.dtype),
                           reduction_of(c.op),
                           comm,
                           stream),
           "ncclAllReduce");
      break;
    case CollectiveKind::all_gather:
      call(nccl.all_gather(c.input.address, c.output.address, bytes_of(c.input), kU8, comm, stream),
           "ncclAllGather");
      break;
    case CollectiveKind::reduce_scatter:
      call(nccl.reduce_scatter(c.input.address,
                               c.output.address,
                               count_of(c.output),
                               type_of(c.input.dtype),
                               reduction_of(c.op),
                               comm,
                               stream),
           "ncclReduceScatter");
      break;
    case CollectiveKind::broadcast:
      call(nccl.broadcast(
               c.input.address, c.input.address, bytes_of(c.input), kU8, c.root, comm, stream),
           "ncclBroadcast");
      break;
    case CollectiveKind::barrier: {
      void* const mark = mark_.arg().address;
      call(nccl.all_reduce(mark, mark, 1, kI32, kMax, comm, stream), "ncclAllReduce");
      break;
    }
    case CollectiveKind::all_to_all:
    case CollectiveKind::exchange:
      move(c, comm, stream);
      break;
  }
}

// Both ends of a transfer call with the same size; one that is empty is called at neither.
void NcclGroup::move(const Collective& c, Comm* comm, cudaStream_t stream) {
  const Library& nccl = world_->library();
  for (const Transfer& part : c.sends) {
    if (bytes_of(part.tensor) == 0) continue;
    call(nccl.send(part.tensor.address, bytes_of(part.tensor), kU8, part.peer, comm, stream),
         "ncclSend");
  }
  for (const Transfer& part : c.receives) {
    if (bytes_of(part.tensor) == 0) continue;
    call(nccl.receive(part.tensor.address, bytes_of(part.tensor), kU8, part.peer, comm, stream),
         "ncclRecv");
  }
}

}  // namespace tessera::nccl
