#include "kernel/dry/meta_device.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "kernel/dry/unbacked_memory.hpp"
#include "sdk/src/shared/strided_copy.hpp"
#include "tessera/error.hpp"

namespace tessera {

namespace {

DeviceArguments arguments_of(const Device& stands_for) {
  DeviceArguments arguments;
  arguments.threads = stands_for.threads();
  arguments.memory = std::make_shared<UnbackedMemory>();
  return arguments;
}

// Marks for ASan would need shadow memory for all that is only pretended.
CachingAllocator::Options without_marks() {
  CachingAllocator::Options options;
  options.mark = false;
  return options;
}

}  // namespace

class MetaDevice::Assumptions {
 public:
  void set(const std::byte* begin, const std::byte* values, i64 bytes) {
    forget(begin, begin + bytes);
    runs_.emplace(begin, std::vector<std::byte>(values, values + bytes));
  }

  void load(const TensorArg& tensor, void* dense) const {
    auto* to = static_cast<std::byte*>(dense);
    for_each_run(tensor, [&](const std::byte* from, std::size_t bytes) {
      std::memset(to, 0, bytes);
      auto at = runs_.upper_bound(from);
      if (at != runs_.begin()) --at;
      for (; at != runs_.end() && at->first < from + bytes; ++at) {
        const std::byte* begin = std::max(from, at->first);
        const std::byte* end = std::min(from + bytes, at->first + at->second.size());
        if (begin < end) {
          std::copy_n(at->second.data() + (begin - at->first), end - begin, to + (begin - from));
        }
      }
      to += bytes;
    });
  }

 private:
  void forget(const std::byte* begin, const std::byte* end) {
    auto at = runs_.lower_bound(begin);
    if (at != runs_.begin()) {
      const auto before = std::prev(at);
      if (before->first + before->second.size() > begin) at = before;
    }
    while (at != runs_.end() && at->first < end) at = runs_.erase(at);
  }

  // By the address that they begin at; none overlap.
  std::map<const std::byte*, std::vector<std::byte>> runs_;
};

MetaDevice::MetaDevice(std::shared_ptr<Device> stands_for,
                       OnLaunch on_launch,
                       OnRead on_read,
                       std::function<void()> replayed,
                       double imbalance)
    : HostDevice(std::string(stands_for->name()), arguments_of(*stands_for), {}),
      stands_for_(std::move(stands_for)),
      on_launch_(std::move(on_launch)),
      on_read_(std::move(on_read)),
      replayed_(std::move(replayed)),
      imbalance_(imbalance),
      pool_(std::make_shared<UnbackedMemory>(),
            without_marks(),
            [this](i64 bytes, Category category) {
              require(!capturing(),
                      "allocation of {} bytes ({}) from the pool of device \"{}\" while capturing",
                      bytes,
                      category_name(category),
                      name());
            },
            {}) {}

MetaDevice::~MetaDevice() = default;

const Kernel* MetaDevice::find(std::string_view operation) const {
  if (const auto known = kernels_.find(operation); known != kernels_.end()) return &known->second;
  const Kernel* real = stands_for_->find(operation);
  if (real == nullptr) return nullptr;
  Kernel& kernel = kernels_.emplace(operation, *real).first->second;
  kernel.launch = [this, &kernel](const void* args, void*, Stream&) {
    ++launches_.all;
    if (replaying_) ++launches_.replayed;
    if (on_launch_) on_launch_(kernel, args);
  };
  return &kernel;
}

void MetaDevice::launch_host(Stream& stream, std::string_view name, std::function<void()>) {
  HostDevice::launch_host(stream, name, [] {});
}

void MetaDevice::launch_host_wait(Stream& stream, std::string_view name, std::function<void()>) {
  HostDevice::launch_host_wait(stream, name, [] {});
}

void MetaDevice::copy_to_host(Stream& stream,
                              const Tensor& tensor,
                              const HostBlock& block,
                              i64 offset) {
  if (on_read_) on_read_(tensor.arg());
  HostDevice::copy_to_host(stream, tensor, block, offset);
}

void MetaDevice::add_event(Stream& stream, std::function<void()> event) {
  HostDevice::launch_host(stream, "simulated collective", std::move(event));
}

void MetaDevice::replay(Graph& graph, Stream& stream) {
  if (replayed_) replayed_();
  replaying_ = true;
  HostDevice::replay(graph, stream);
  replaying_ = false;
}

MemoryStats MetaDevice::memory() const {
  const MemoryStats host = HostDevice::memory();  // nothing but host blocks
  MemoryStats stats = pool_.allocator().stats();
  stats.host_blocks = host.host_blocks;
  stats.system_calls += host.system_calls;
  return stats;
}

std::shared_ptr<MetaDevice::Assumptions> MetaDevice::about(const Tensor& tensor) const {
  std::erase_if(assumed_, [](const auto& assumed) { return assumed.first.expired(); });
  std::shared_ptr<Assumptions>& found = assumed_[tensor.memory()];
  if (found == nullptr) found = std::make_shared<Assumptions>();
  return found;
}

void MetaDevice::assume(const Tensor& tensor, const void* host) {
  require(tensor.defined() && &tensor.device() == this && tensor.dense(),
          "an assumption on {}, which is not a dense tensor on device \"{}\"",
          tensor,
          name());
  if (tensor.bytes() == 0) return;
  about(tensor)->set(
      tensor.arg().as<const std::byte>(), static_cast<const std::byte*>(host), tensor.bytes());
}

// The tensor may be gone when a graph is replayed; what was assumed of it is not.
HostDevice::Load MetaDevice::loader(const Tensor& tensor) const {
  return
      [assumed = about(tensor), from = tensor.arg()](void* dense) { assumed->load(from, dense); };
}

}  // namespace tessera
