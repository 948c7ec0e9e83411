#include "ranks_support.hpp"

#include <algorithm>
#include <exception>
#include <numeric>
#include <thread>

#include "kernel/comm/build_mesh.hpp"
#include "kernel/comm/staged.hpp"
#include "kernel/comm/store.hpp"
#include "kernel/comm/threads.hpp"
#include "tessera/device/host_device.hpp"

namespace tessera::testing {

namespace {

void run_rank(i64 rank, const RankOptions& options, Store& store, const RankBody& body) {
  CommunicatorArguments arguments;
  arguments.rank = rank;
  arguments.world = options.world;
  arguments.store = &store;
  arguments.timeout = options.timeout;
  arguments.init_timeout = options.init_timeout;
  run_on_device(
      options, arguments, std::make_shared<ThreadsCommunicator>(NoConfig(), arguments), body);
}

// Computes on the host, and says that its memory is none of it.
class ElsewhereDevice final : public HostDevice {
 public:
  explicit ElsewhereDevice(const DeviceArguments& arguments) : HostDevice("test", arguments, {}) {}
  std::string_view memory_kind() const override { return "elsewhere"; }
};

}  // namespace

void run_on_device(const RankOptions& options,
                   const CommunicatorArguments& arguments,
                   std::shared_ptr<Communicator> communicator,
                   const RankBody& body) {
  DeviceArguments of;
  const auto offset = static_cast<u64>(arguments.rank);
  of.deferred_seed = options.deferred_seed == 0 ? 0 : options.deferred_seed + offset;
  std::unique_ptr<HostDevice> device;
  if (options.staged) {
    device = std::make_unique<ElsewhereDevice>(of);
    communicator = std::make_shared<StagedCommunicator>(std::move(communicator), *device);
  } else {
    if (!options.private_memory) of.memory = communicator->memory();
    device = std::make_unique<HostDevice>("test", of, std::vector<Kernel>());
  }
  TestRank test{arguments.rank, options.world, *communicator, *device, *arguments.store};
  body(test);
}

void TestRank::reach(const std::string& point) {
  store.set("test/" + point + "/" + std::to_string(rank), "");
}

void TestRank::await(const std::string& point, const std::vector<i64>& ranks) {
  for (const i64 other : ranks) {
    store.get("test/" + point + "/" + std::to_string(other), std::chrono::minutes(2));
  }
}

void TestRank::end_together(const std::vector<i64>& ranks, const std::function<void()>& body) {
  std::exception_ptr failure;
  try {
    body();
  } catch (...) {
    failure = std::current_exception();
  }
  reach("end");
  await("end", ranks);
  if (failure) std::rethrow_exception(failure);
}

std::vector<std::string> run_threads(const RankOptions& options, const RankBody& body) {
  InProcessStore store;
  std::vector<std::string> errors(static_cast<std::size_t>(options.world));
  std::vector<std::thread> threads;
  for (i64 rank = 0; rank < options.world; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        run_rank(rank, options, store, body);
      } catch (const std::exception& error) {
        errors[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

std::unique_ptr<ProcessGroup> make_group(TestRank& rank,
                                         const std::string& name,
                                         const std::vector<i64>& members,
                                         int id,
                                         CommLane lane,
                                         Progress* progress) {
  const auto here = std::find(members.begin(), members.end(), rank.rank);
  GroupSpec spec{.name = group_name(name, members),
                 .members = members,
                 .index = static_cast<int>(here - members.begin()),
                 .id = id,
                 .lane = lane};
  auto backend = rank.communicator.create_group(spec, rank.device);
  return std::make_unique<ProcessGroup>(std::move(spec), std::move(backend), rank.rank, progress);
}

std::unique_ptr<ProcessGroup> make_world_group(TestRank& rank, int id, Progress* progress) {
  std::vector<i64> all(static_cast<std::size_t>(rank.world));
  std::iota(all.begin(), all.end(), i64{0});
  return make_group(rank, "all", all, id, CommLane::critical, progress);
}

}  // namespace tessera::testing
