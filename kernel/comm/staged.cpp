#include "kernel/comm/staged.hpp"

#include <utility>

#include "kernel/comm/block_cache.hpp"
#include "kernel/comm/block_layout.hpp"
#include "kernel/comm/memory_kinds.hpp"
#include "tessera/device/host_comm.hpp"
#include "tessera/error.hpp"

namespace tessera {

namespace {

// Memory that belongs to somebody else, as a tensor for the device's copies.
class ForeignMemory final : public Pool {
 public:
  ForeignMemory(const BlockLayout::Run& run, Stream& stream)
      : run_(run),
        tensor_(Tensor::allocate(
            stream.device(), *this, stream, {run.bytes}, DType::u8, Category::communication)) {}
  const Tensor& tensor() const { return tensor_; }

  Block allocate(i64 bytes, Category category, Stream& stream) override {
    return {run_.address, bytes, category, &stream};
  }
  void release(const Block&) override {}

 private:
  const BlockLayout::Run& run_;
  Tensor tensor_;
};

// What the collectives of one group share.
struct Staging {
  Device& device;
  Stream& comm;
  std::shared_ptr<BlockCache> blocks;   // goes after `inner`, which may still use some
  std::unique_ptr<GroupBackend> inner;  // has `group`
  HostGroup& group;
  int index;
};

class StagedCollective final : public PendingCollective {
 public:
  StagedCollective(Staging& staging, Collective collective)
      : staging_(staging),
        blocks_(staging.blocks),
        layout_(collective, staging.index),
        block_(blocks_->take(layout_.bytes())),
        collective_(layout_.moved(std::move(collective), block_.address())) {}

  // Where it did not complete, peers may still read or write the block.
  ~StagedCollective() override {
    if (!complete_) blocks_->keep(std::move(block_));
  }
  StagedCollective(const StagedCollective&) = delete;
  StagedCollective& operator=(const StagedCollective&) = delete;

  void post() {
    Device& device = staging_.device;
    for (const BlockLayout::Run& run : layout_.sent()) {
      device.copy_to_host(
          staging_.comm, ForeignMemory(run, staging_.comm).tensor(), block_, run.offset);
    }
    // A barrier tells peers that this rank's work is done.
    if (!layout_.sent().empty() || collective_.kind == CollectiveKind::barrier) {
      device.join(device.record(staging_.comm), kNoDeadline, collective_.name.view());
    }
    ticket_ = staging_.group.post(collective_);
  }

  void do_wait(Stream& stream) override {
    if (!complete_) {
      staging_.group.finish(ticket_);
      complete_ = true;
      receive();
      blocks_->give_back(std::move(block_), received_);
    }
    see(stream);
  }

  void do_wait_received(Stream& stream) override {
    if (!complete_ && !has_received_) {
      staging_.group.finish(ticket_, Until::received);
      receive();
    }
    see(stream);
  }

  void do_join() override {
    wait(staging_.comm);
    staging_.device.join(received_, kNoDeadline, collective_.name.view());
  }

 private:
  void receive() {
    if (std::exchange(has_received_, true) || layout_.received().empty()) return;
    for (const BlockLayout::Run& run : layout_.received()) {
      staging_.device.copy_from_host(
          staging_.comm, ForeignMemory(run, staging_.comm).tensor(), block_, run.offset);
    }
    received_ = staging_.device.record(staging_.comm);
  }

  void see(Stream& stream) {
    if (&stream != &staging_.comm) staging_.device.wait(stream, received_);
  }

  Staging& staging_;
  const std::shared_ptr<BlockCache> blocks_;
  const BlockLayout layout_;
  HostBlock block_;
  const Collective collective_;  // in the block
  HostGroup::Ticket ticket_ = 0;
  bool has_received_ = false, complete_ = false;
  Event received_;  // the results are in their tensors
};

class StagedGroup final : public GroupBackend {
 public:
  explicit StagedGroup(Staging staging) : staging_(std::move(staging)) {}
  std::shared_ptr<PendingCollective> do_start(Collective collective, Stream& after) override {
    Device& device = staging_.device;
    if (&after != &staging_.comm) device.wait(staging_.comm, device.record(after));
    auto pending = std::make_shared<StagedCollective>(staging_, std::move(collective));
    pending->post();
    return pending;
  }
  bool capturable() const override { return false; }  // the rank's thread takes part

 private:
  Staging staging_;
};

}  // namespace

StagedCommunicator::StagedCommunicator(std::shared_ptr<Communicator> inner, const Device& device)
    : inner_(std::move(inner)),
      name_(fmt::format("{}, staged", inner_->name())),
      memory_kind_(device.memory_kind()) {
  check_memory_kinds(device, *inner_, true);
}

StagedCommunicator::~StagedCommunicator() = default;

std::unique_ptr<GroupBackend> StagedCommunicator::do_create_group(const GroupSpec& spec,
                                                                  Device& device) {
  std::unique_ptr<GroupBackend> inner = inner_->create_group(spec, device);
  HostGroup* const group = inner->host_group();
  if (group == nullptr) {
    fail_config(
        "comm.staged = true: communicator \"{}\" does not carry out the collectives of {} on the "
        "host; choose another [comm] type",
        inner_->name(),
        spec.name);
  }
  std::shared_ptr<BlockCache> blocks = blocks_.lock();
  if (blocks == nullptr) blocks_ = blocks = std::make_shared<BlockCache>(device);
  return std::make_unique<StagedGroup>(Staging{device,
                                               device.comm_stream(spec.lane),
                                               std::move(blocks),
                                               std::move(inner),
                                               *group,
                                               spec.index});
}

}  // namespace tessera
