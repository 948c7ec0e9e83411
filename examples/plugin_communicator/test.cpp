// Two ranks as threads of this process: a sum, a gather, and an exchange of unequal parts.
#include <condition_variable>
#include <cstdio>
#include <exception>
#include <map>
#include <mutex>
#include <tessera/device/communicator.hpp>
#include <tessera/error.hpp>
#include <tessera/testing/local_world.hpp>
#include <tessera/testing/workbench.hpp>
#include <thread>

namespace {

using namespace tessera;
using namespace tessera::testing;

// What the launcher brings in a run.
class LocalStore final : public Store {
 public:
  void set(std::string_view key, std::string_view value) override {
    const std::lock_guard lock(mutex_);
    values_[std::string(key)] = value;
    changed_.notify_all();
  }
  std::string get(std::string_view key, std::chrono::milliseconds timeout) override {
    std::unique_lock lock(mutex_);
    const std::string name(key);
    const bool there = changed_.wait_for(lock, timeout, [&] { return values_.contains(name); });
    require(there, "nobody set \"{}\"", name);
    return values_[name];
  }
  i64 add(std::string_view key, i64 amount) override {
    const std::lock_guard lock(mutex_);
    return counters_[std::string(key)] += amount;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
  std::map<std::string, i64> counters_;
};

using Values = std::vector<double>;

std::string wrong_results(ProcessGroup& group, Device& device) {
  Workbench bench(device);
  Stream& stream = device.stream();
  const int own = group.index(), other = 1 - own;
  const auto tensor = [&](const Values& values) {
    return bench.tensor({static_cast<i64>(values.size())}, DType::fp32, values);
  };
  const Tensor sum = tensor({1.0 + own, 10});
  group.all_reduce(stream, sum, ReduceOp::sum, "sum").wait(stream);
  if (read(sum) != Values{3, 20}) return "the sum is wrong\n";

  const Tensor all = tensor({0, 0});
  group.all_gather(stream, tensor({5.0 + own}), all, "gather").wait(stream);
  if (read(all) != Values{5, 6}) return "what was gathered is wrong\n";

  // Rank 0 sends one value, rank 1 many, which is another way through the engine.
  const Tensor sent = tensor(Values(own == 0 ? 1 : 5000, 7.0 + own));
  const Tensor received = tensor(Values(own == 0 ? 5000 : 1, 0));
  group.exchange(stream, {{other, sent}}, {{other, received}}, "exchange").wait(stream);
  for (const double value : read(received)) {
    if (value != 7 + other) return "what was exchanged is wrong\n";
  }
  return {};
}

std::string run_rank(const LocalWorld& world, Store& store, int rank) {
  constexpr std::chrono::seconds kPatience(20);
  CommunicatorArguments arguments{
      .rank = rank, .world = 2, .store = &store, .timeout = kPatience, .init_timeout = kPatience};
  const auto communicator = world.make<Communicator>("proc_shm", arguments, {{"segment_gib", 0.5}});
  try {
    DeviceArguments of_device{.memory = communicator->memory(), .kernels = world.kernels()};
    const auto device = world.make<Device>("reference", of_device);
    const GroupSpec spec{.name = "both", .members = {0, 1}, .index = rank};
    ProcessGroup group(spec, communicator->create_group(spec, *device), rank);
    std::string wrong = wrong_results(group, *device);
    group.barrier(device->stream(), "end");
    return wrong;
  } catch (const std::exception& error) {
    communicator->abort(error.what());
    return fmt::format("rank {}: {}\n", rank, error.what());
  }
}

}  // namespace

int main(int argc, char** argv) try {
  const std::vector<std::filesystem::path> folders(argv + 1, argv + argc);  // of plugins
  const LocalWorld world(folders);
  LocalStore store;
  std::string wrong[2];
  std::thread second([&] { wrong[1] = run_rank(world, store, 1); });
  wrong[0] = run_rank(world, store, 0);
  second.join();
  std::fputs((wrong[0] + wrong[1]).c_str(), stderr);
  return wrong[0].empty() && wrong[1].empty() ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
