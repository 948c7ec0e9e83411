#include "kernel/comm/threads.hpp"

#include <cstring>
#include <mutex>
#include <vector>

#include "kernel/comm/store.hpp"
#include "tessera/error.hpp"

namespace tessera {

namespace {

// Control blocks of all ranks of one world. Kept until the last rank and the store are gone, since
// a peer may still look into the blocks of a rank that has ended.
class ThreadWorld {
 public:
  void* reserve(i64 bytes) {
    constexpr std::size_t kPage = 4096;
    void* block = ::operator new (static_cast<std::size_t>(bytes), std::align_val_t{kPage});
    std::memset(block, 0, static_cast<std::size_t>(bytes));
    const std::lock_guard lock(mutex_);
    blocks_.emplace_back(block, Free{});
    return block;
  }

 private:
  struct Free {
    void operator()(void* block) const { ::operator delete (block, std::align_val_t{4096}); }
  };
  std::mutex mutex_;
  std::vector<std::unique_ptr<void, Free>> blocks_;
};

// One address space: a token is the address itself.
class ThreadMemory : public DirectMemory {
 public:
  explicit ThreadMemory(std::shared_ptr<ThreadWorld> world) : world_(std::move(world)) {}
  void* reserve(i64 bytes) override { return world_->reserve(bytes); }
  void release(void*, i64) override {}
  u64 token(const void* address, i64) const override {
    return reinterpret_cast<std::uintptr_t>(address);
  }
  void* at(i64, u64 token, i64) const override {
    return reinterpret_cast<void*>(static_cast<std::uintptr_t>(token));  // NOLINT: a name for peers
  }
  std::string death(i64) override { return {}; }

 private:
  std::shared_ptr<ThreadWorld> world_;
};

std::shared_ptr<DirectMemory> memory_of(const CommunicatorArguments& arguments) {
  Store* whole = arguments.store;
  while (const auto* section = dynamic_cast<StoreSection*>(whole)) whole = &section->whole();
  auto* store = dynamic_cast<InProcessStore*>(whole);
  require(store != nullptr,
          "communicator \"threads\" joins threads of one process: set comm.type to one that joins "
          "processes, or to \"auto\"");
  return std::make_shared<ThreadMemory>(store->object<ThreadWorld>("threads/world"));
}

}  // namespace

ThreadsCommunicator::ThreadsCommunicator(const Config&, CommunicatorArguments& arguments)
    : engine_(std::string(kThreads), arguments, memory_of(arguments)) {}

void register_threads(Registrar& registrar) {
  registrar.add<Communicator, ThreadsCommunicator>(
      kThreads,
      "ranks as threads of one process, for tests and programs that start them; no configuration "
      "may choose it");
}

}  // namespace tessera
