// The conformance kit for devices: a right device passes it, and each of these broken ones does
// not.
#include "tessera/testing/device_check.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "tessera/device/host_device.hpp"
#include "tessera/ops/elementwise.hpp"

namespace tessera {
namespace device_check_test {

using testing::device_check;

void run_fill(const FillArgs& args) {
  std::fill_n(args.out.as<float>(), args.out.elements(), static_cast<float>(args.value));
}

void run_add(const AddArgs& args) {
  for (i64 i = 0; i < args.out.elements(); ++i) {
    args.out.as<float>()[i] = args.a.as<float>()[i] + args.b.as<float>()[i];
  }
}

class Right : public HostDevice {
 public:
  explicit Right(const DeviceArguments& arguments)
      : HostDevice("right",
                   arguments,
                   {make_kernel<FillArgs>(&run_fill), make_kernel<AddArgs>(&run_add)}) {}
};

template <class T>
std::shared_ptr<Device> make(const DeviceArguments& arguments) {
  return std::make_shared<T>(arguments);
}
using Maker = std::shared_ptr<Device> (*)(const DeviceArguments& arguments);

std::string check(Maker maker, u64 seed, std::string_view part = {}) {
  return device_check(
      [&](DeviceArguments arguments) {
        arguments.deferred_seed = seed;
        return maker(arguments);
      },
      part);
}

TEST(DeviceCheck, PassesARightDeviceInline) { EXPECT_EQ(check(make<Right>, 0), ""); }

TEST(DeviceCheck, PassesARightDeviceInAnyOrder) {
  for (u64 seed = 1; seed <= 8; ++seed) EXPECT_EQ(check(make<Right>, seed), "") << "seed " << seed;
}

TEST(DeviceCheck, KnowsItsParts) {
  EXPECT_EQ(check(make<Right>, 1, "streams"), "");
  EXPECT_THROW(check(make<Right>, 1, "strings"), Error);
}

// --- order, events, waits ---

struct NeverSynchronizes : Right {
  using Right::Right;
  void synchronize(Stream&) override { ++calls_.synchronize; }
};
struct IgnoresEvents : Right {
  using Right::Right;
  void wait(Stream& stream, const Event& event) override {
    if (capturing()) Right::wait(stream, event);
  }
};
struct OneStreamForAllLanes : Right {
  using Right::Right;
  Stream& comm_stream(CommLane) override { return Right::comm_stream(CommLane::bulk); }
};
struct WaitingTasksRunAnyTime : Right {
  using Right::Right;
  void launch_host_wait(Stream& stream, std::string_view name, std::function<void()> f) override {
    Right::launch_host(stream, name, std::move(f));
  }
};
struct QueryIsAlwaysTrue : Right {
  using Right::Right;
  bool query(const Event&) override { return true; }
};
struct QueryHidesTheCheck : Right {
  using Right::Right;
  bool query(const Event& event) override {
    try {
      return Right::query(event);
    } catch (const Error&) {
      return true;
    }
  }
};
struct DefaultEventIsNeverReached : Right {
  using Right::Right;
  bool query(const Event& event) override { return event.state && Right::query(event); }
};
struct JoinReturnsAtOnce : Right {
  using Right::Right;
  void join(const Event&, Deadline, std::string_view) override { ++calls_.join; }
};
struct JoinWithoutDeadline : Right {
  using Right::Right;
  void join(const Event& event, Deadline, std::string_view what) override {
    Right::join(event, kNoDeadline, what);
  }
};
struct JoinWithoutName : Right {
  using Right::Right;
  void join(const Event& event, Deadline deadline, std::string_view) override {
    Right::join(event, deadline, "");
  }
};
struct JoinWithoutCheck : Right {
  using Right::Right;
  void join(const Event& event, Deadline deadline, std::string_view what) override {
    while (!query(event)) {
      require(std::chrono::steady_clock::now() < deadline, "no {}", what);
    }
  }
};
struct SynchronizeWithoutCheck : Right {
  using Right::Right;
  void synchronize(Stream& stream) override {
    const Event end = record(stream);
    while (!query(end)) {
    }
  }
};
struct TimeOfTheHost : Right {
  using Right::Right;
  double elapsed(const Event&, const Event&) override { return 0; }
};
struct TimeOfAnyEvent : Right {
  using Right::Right;
  double elapsed(const Event& begin, const Event& end) override {
    try {
      return Right::elapsed(begin, end);
    } catch (const Error& error) {
      if (std::string_view(error.what()).find("both been reached") != std::string_view::npos) throw;
      return 0;
    }
  }
};
struct CountsNoReads : Right {
  using Right::Right;
  void read(const Tensor& tensor, void* host) override {
    Right::read(tensor, host);
    --calls_.read;
  }
};
struct CopiesByWaiting : Right {
  using Right::Right;
  void copy_to_host(Stream& s, const Tensor& t, const HostBlock& b, i64 offset) override {
    Right::copy_to_host(s, t, b, offset);
    Right::synchronize(s);
  }
};

// --- memory ---

/// A pool over the device's own that is wrong in some way.
struct WrapsPool : Right {
  explicit WrapsPool(const DeviceArguments& arguments) : Right(arguments) {}
  struct Wrapper : Pool {
    explicit Wrapper(WrapsPool& device) : device(device) {}
    Block allocate(i64 bytes, Category category, Stream& stream) override {
      return device.allocate(device.Right::pool(), bytes, category, stream);
    }
    void release(const Block& block) override { device.release(device.Right::pool(), block); }
    WrapsPool& device;
  };
  Pool& pool() override { return wrapper; }
  virtual Block allocate(Pool& own, i64 bytes, Category category, Stream& stream) {
    return own.allocate(bytes, category, stream);
  }
  virtual void release(Pool& own, const Block& block) { own.release(block); }
  Wrapper wrapper{*this};
};
struct OnePoolForAllStreams : WrapsPool {
  using WrapsPool::WrapsPool;
  Block allocate(Pool& own, i64 bytes, Category category, Stream&) override {
    return own.allocate(bytes, category, stream());
  }
};
struct ClearsReleasedMemoryAtOnce : WrapsPool {
  using WrapsPool::WrapsPool;
  void release(Pool& own, const Block& block) override {
    std::memset(block.address, 0, static_cast<std::size_t>(block.bytes));
    own.release(block);
  }
};
struct CountsAllAsActivations : WrapsPool {
  using WrapsPool::WrapsPool;
  Block allocate(Pool& own, i64 bytes, Category, Stream& stream) override {
    return own.allocate(bytes, Category::activations, stream);
  }
};
struct AlwaysAsksTheSystem : Right {
  using Right::Right;
  MemoryStats memory() const override {
    MemoryStats stats = Right::memory();
    stats.system_calls = ++calls;
    return stats;
  }
  mutable i64 calls = 0;
};
struct KeepsPeaks : Right {
  using Right::Right;
  void reset_peaks() override {}
};
struct OneHostBlock : Right {
  using Right::Right;
  HostBlock host_block(i64 bytes) override {
    if (!block.defined() || block.bytes() != bytes) block = Right::host_block(bytes);
    return block;
  }
  HostBlock block;
};
struct HidesHostBlocks : Right {
  using Right::Right;
  MemoryStats memory() const override {
    MemoryStats stats = Right::memory();
    stats.host_blocks = 0;
    return stats;
  }
};

// --- copies ---

struct IgnoresOffsets : Right {
  using Right::Right;
  void copy_to_host(Stream& s, const Tensor& t, const HostBlock& b, i64) override {
    Right::copy_to_host(s, t, b, 0);
  }
};
struct IgnoresStrides : Right {
  using Right::Right;
  void store(const TensorArg& tensor, const void* dense) override {
    const auto bytes = static_cast<std::size_t>(tensor.elements() * dtype_size(tensor.dtype));
    if (bytes > 0) std::memcpy(tensor.address, dense, bytes);
  }
};
struct CopiesAtOnce : Right {
  using Right::Right;
  void copy_to_host(Stream& s, const Tensor& t, const HostBlock& b, i64 offset) override {
    if (capturing()) return Right::copy_to_host(s, t, b, offset);
    host_copy("copy_to_host", t, b, offset);
    loader(t)(b.address() + offset);
  }
};
struct CopiesAnything : Right {
  using Right::Right;
  void copy_to_host(Stream& s, const Tensor& t, const HostBlock& b, i64 offset) override {
    try {
      Right::copy_to_host(s, t, b, offset);
    } catch (const Error&) {
      if (capturing()) throw;
    }
  }
};

// --- capture ---

struct RunsWhileCapturing : Right {
  using Right::Right;
  void launch(Stream& stream, const Kernel& kernel, const void* args, Pool& pool) override {
    Right::launch(stream, kernel, args, pool);
    if (capturing()) kernel.launch(args, nullptr, stream);
  }
};
struct HidesCaptures : Right {
  using Right::Right;
  bool capturing() const override { return false; }
};
struct KeepsCaptures : Right {
  using Right::Right;
  void abort_capture() override {}
};
struct ReadsWhileCapturing : Right {
  using Right::Right;
  void read(const Tensor& tensor, void* host) override {
    if (!capturing()) Right::read(tensor, host);
  }
};
struct RefusesWithoutSpoiling : Right {
  using Right::Right;
  bool query(const Event& event) override {
    require(!capturing(), "query in a capture");
    return Right::query(event);
  }
};
struct TakesFirstUses : Right {
  using Right::Right;
  void launch(Stream& stream, const Kernel& kernel, const void* args, Pool& pool) override {
    if (!capturing()) return Right::launch(stream, kernel, args, pool);
    const auto* bytes = static_cast<const std::byte*>(args);
    launch_host(stream,
                kernel.operation,
                [&kernel, copy = std::vector(bytes, bytes + kernel.args_bytes), &stream] {
                  kernel.launch(copy.data(), nullptr, stream);
                });
  }
};
struct TakesUnjoinedForks : Right {
  using Right::Right;
  void wait(Stream& stream, const Event& event) override {
    Right::wait(stream, event);
    if (capturing() && stream.index() != 0) forked = &stream;
  }
  std::unique_ptr<Graph> end_capture(Stream& stream) override {
    Stream* const open = std::exchange(forked, nullptr);
    if (capturing() && open) Right::wait(Right::stream(), record(*open));
    return Right::end_capture(stream);
  }
  Stream* forked = nullptr;
};
struct ForgetsReplayTasks : Right {
  using Right::Right;
  void on_replay(ReplayTask) override { require(capturing(), "on_replay without begin_capture"); }
};
struct RunsReplayTasksAtOnce : Right {
  using Right::Right;
  void on_replay(ReplayTask task) override {
    task.before(stream());
    Right::on_replay(std::move(task));
  }
};
struct ReplaysNothing : Right {
  using Right::Right;
  void replay(Graph&, Stream&) override {}
};
struct CopiesOnceForAll : Right {
  using Right::Right;
  void copy_from_host(Stream& s, const Tensor& t, const HostBlock& b, i64 offset) override {
    if (!capturing()) return Right::copy_from_host(s, t, b, offset);
    store(t.arg(), b.address() + offset);
    launch_host(s, "copy_from_host", [b] {});
  }
};
struct GraphsKeepNoBlocks : Right {
  using Right::Right;
  void copy_from_host(Stream& s, const Tensor& t, const HostBlock& b, i64 offset) override {
    if (!capturing()) return Right::copy_from_host(s, t, b, offset);
    launch_host(s, "copy_from_host", [this, to = t.arg(), from = b.address() + offset] {
      store(to, from);
    });
  }
};

// --- errors, kinds of memory ---

struct SwallowsErrors : Right {
  using Right::Right;
  void launch_host(Stream& stream, std::string_view name, std::function<void()> task) override {
    Right::launch_host(stream, name, [task = std::move(task)] {
      try {
        task();
      } catch (const std::exception&) {
      }
    });
  }
};
struct ForgetsNames : Right {
  using Right::Right;
  void launch_host(Stream& stream, std::string_view, std::function<void()> task) override {
    Right::launch_host(stream, "task", std::move(task));
  }
};
struct RepeatsErrors : Right {
  using Right::Right;
  void read(const Tensor& tensor, void* host) override {
    keep([&] { Right::read(tensor, host); });
  }
  void synchronize(Stream& stream) override {
    keep([&] { Right::synchronize(stream); });
  }
  template <class F>
  void keep(F f) {
    if (failure) std::rethrow_exception(failure);
    try {
      f();
    } catch (...) {
      failure = std::current_exception();
      throw;
    }
  }
  std::exception_ptr failure;
};
struct SaysItIsCuda : Right {
  using Right::Right;
  std::string_view memory_kind() const override { return "cuda"; }
};
struct TakesAnyMemory : Right {
  explicit TakesAnyMemory(DeviceArguments arguments)
      : Right([&] {
          arguments.memory = nullptr;
          return arguments;
        }()) {}
};
struct TakesNoKernels : Right {
  explicit TakesNoKernels(DeviceArguments arguments)
      : Right([&] {
          arguments.kernels = {};
          return arguments;
        }()) {}
};

struct Mutant {
  const char* name;
  Maker maker;
  const char* part;
  const char* problem;
};
void PrintTo(const Mutant& mutant, std::ostream* out) { *out << mutant.name; }

#define MUTANT(type, part, problem) \
  Mutant { #type, make < type>, part, problem }

const Mutant kMutants[] = {
    MUTANT(NeverSynchronizes, "streams", "streams: synchronize(\"compute\") does not wait"),
    MUTANT(IgnoresEvents, "streams", "streams: work of two streams that wait"),
    MUTANT(OneStreamForAllLanes, "streams", "lanes are not 5 different streams"),
    MUTANT(WaitingTasksRunAnyTime, "streams", "tasks of launch_host_wait ran before what"),
    MUTANT(QueryIsAlwaysTrue, "events", "events: query is true before"),
    MUTANT(DefaultEventIsNeverReached, "events", "events: a default event is not reached"),
    MUTANT(JoinReturnsAtOnce, "events", "events: join returns before"),
    MUTANT(JoinWithoutDeadline, "waits", "waits: join at its deadline was to end early"),
    MUTANT(
        JoinWithoutName, "waits", "waits: join at its deadline ended with an error that does not"),
    MUTANT(JoinWithoutCheck, "waits", "waits: join under a wait check was to end early"),
    MUTANT(QueryHidesTheCheck, "waits", "waits: query of what is reached, under a wait check that"),
    MUTANT(SynchronizeWithoutCheck, "waits", "waits: synchronize under a wait check was to end"),
    MUTANT(TimeOfTheHost, "times", "times: elapsed has a value before"),
    MUTANT(TimeOfTheHost, "times", "times: elapsed is 0 s for work"),
    MUTANT(TimeOfAnyEvent, "times", "times: elapsed to an event without time is no error"),
    MUTANT(CountsNoReads, "host calls", "host calls: 1 join, 2 writes, 3 reads"),
    MUTANT(CopiesByWaiting, "host calls", "host calls: a call that does not wait is counted"),
    MUTANT(
        CountsAllAsActivations, "memory", "memory: memory() does not count a block of parameters"),
    MUTANT(AlwaysAsksTheSystem, "memory", "memory: requests that repeat still ask"),
    MUTANT(KeepsPeaks, "memory", "memory: reset_peaks keeps a peak"),
    MUTANT(OnePoolForAllStreams, "lifetimes", "lifetimes: a tensor whose memory another stream"),
    MUTANT(
        ClearsReleasedMemoryAtOnce, "lifetimes", "lifetimes: a sum of tensors that were dropped"),
    MUTANT(OneHostBlock, "host blocks", "is not aligned to 64 or is another's"),
    MUTANT(OneHostBlock, "host blocks", "host blocks: a sum of host blocks that were dropped"),
    MUTANT(HidesHostBlocks, "host blocks", "host blocks: memory() does not count host blocks"),
    MUTANT(
        IgnoresOffsets, "copies", "copies: copy_to_host of fp64 [7, 5] with strides [5, 1] is not"),
    MUTANT(IgnoresOffsets, "copies", "copies: copy_to_host over the end of the block is no error"),
    MUTANT(IgnoresStrides, "copies", "with strides [5, 1] writes beside the tensor"),
    MUTANT(CopiesAtOnce, "copies", "copies: a host block after a copy to it"),
    MUTANT(CopiesAnything, "copies", "copies: copy_to_host of rows at two distances is no error"),
    MUTANT(
        CopiesAnything, "copies", "copies: copy_to_host with another device's block is no error"),
    MUTANT(
        RunsWhileCapturing, "capture", "capture: a tensor after a capture, which must run nothing"),
    MUTANT(HidesCaptures, "capture", "capture: capturing() is false in a capture"),
    MUTANT(ForgetsReplayTasks, "capture", "capture: 1 replays called what on_replay was given 0"),
    MUTANT(RunsReplayTasksAtOnce, "capture", "capture: a capture calls what on_replay was given"),
    MUTANT(ReplaysNothing, "capture", "capture: 1 replays called what on_replay was given 0"),
    MUTANT(
        KeepsCaptures, "refusals", "refusals: abort_capture after a host read in a capture leaves"),
    MUTANT(ReadsWhileCapturing, "refusals", "refusals: a host read in a capture is no error"),
    MUTANT(RefusesWithoutSpoiling, "refusals", "refusals: the end of a capture after query is no"),
    MUTANT(
        TakesFirstUses, "refusals", "refusals: the first use of an operation in a capture is no"),
    MUTANT(
        TakesUnjoinedForks, "refusals", "refusals: the end of a capture with a fork that is not"),
    MUTANT(CopiesOnceForAll, "replay", "replay: a recorded copy to the host"),
    MUTANT(GraphsKeepNoBlocks, "replay", "replay: a graph does not keep the host blocks"),
    MUTANT(SwallowsErrors, "errors", "errors: synchronize after a task that fails is no error"),
    MUTANT(ForgetsNames, "errors", "does not mention \"device_check.fails\""),
    MUTANT(RepeatsErrors, "errors", "errors: the failure that synchronize threw is thrown again"),
    MUTANT(SaysItIsCuda,
           "kinds of memory",
           "takes kernels for \"right\" with memory of kind \"host\""),
    MUTANT(TakesAnyMemory, "kinds of memory", "a device over memory of another kind is no error"),
    MUTANT(TakesNoKernels, "kinds of memory", "a kernel that a plugin registered"),
};

class DeviceMutants : public ::testing::TestWithParam<Mutant> {};

TEST_P(DeviceMutants, AreFound) {
  const Mutant& mutant = GetParam();
  std::string problems;
  for (u64 seed = 1; seed <= 20; ++seed) {
    problems = check(mutant.maker, seed, mutant.part);
    if (problems.find(mutant.problem) != std::string::npos) return;
  }
  FAIL() << "expected \"" << mutant.problem << "\", found:\n" << problems;
}

INSTANTIATE_TEST_SUITE_P(DeviceCheck,
                         DeviceMutants,
                         ::testing::ValuesIn(kMutants),
                         [](const auto& info) {
                           return fmt::format("{}_{}", info.param.name, info.index);
                         });

}  // namespace device_check_test
}  // namespace tessera
