#include "kernel/plan/calibrate.hpp"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "kernel/comm/store.hpp"
#include "kernel/config/config.hpp"
#include "tessera/context.hpp"
#include "tessera/core_ops.hpp"
#include "tessera/error.hpp"
#include "tessera/ops.hpp"

namespace tessera {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kBatches = 5;               // their median counts
constexpr double kBatchSeconds = 0.02;    // at least
constexpr i64 kMovedElements = 16 << 20;  // beyond caches
constexpr i64 kFewElements = 16;
constexpr int kGraphLaunches = 16;  // about those of a layer
constexpr i64 kCollectiveBytes[] = {4 << 10, 64 << 10, 1 << 20, 16 << 20};

struct ProductShape {
  i64 m, n, k;
};
// A square one, and those of a small transformer.
constexpr ProductShape kProducts[] = {
    {1024, 1024, 1024}, {2048, 1152, 384}, {2048, 1536, 384}, {2048, 384, 1536}};
constexpr DType kTypes[] = {DType::fp64, DType::fp32, DType::fp16, DType::bf16};

// The ranks' threads. An error of one ends the measurement of all.
class Ranks {
 public:
  explicit Ranks(int count) : barrier_(count) {}

  void run(int count, const std::function<void(int rank)>& body) {
    const auto leave_failed = [this] {
      {
        const std::lock_guard lock(mutex_);
        if (!error_) error_ = std::current_exception();
      }
      barrier_.arrive_and_drop();
    };
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < count; ++rank) {
      try {
        threads.emplace_back([&, rank] {
          try {
            body(rank);
          } catch (...) {
            return leave_failed();
          }
          barrier_.arrive_and_drop();
        });
      } catch (...) {  // the system has no more threads, and the others wait for this one
        leave_failed();
      }
    }
    threads.clear();
    if (error_) std::rethrow_exception(error_);
  }
  /// Throws where another rank has failed, whose error run() throws.
  void meet() {
    barrier_.arrive_and_wait();
    const std::lock_guard lock(mutex_);
    if (error_) fail("another rank has failed");
  }
  /// The largest of what the ranks bring.
  double most(double value) {
    update([&] { most_ = std::max(most_, value); });
    double most = 0;
    update([&] { most = most_; });
    update([&] { most_ = 0; });
    return most;
  }

 private:
  // Each rank once, then all go on.
  void update(const std::function<void()>& body) {
    {
      const std::lock_guard lock(mutex_);
      body();
    }
    meet();
  }

  std::barrier<> barrier_;
  std::mutex mutex_;
  std::exception_ptr error_;
  double most_ = 0;
};

// One rank: its device, and what it measures with the others.
class MeasuringRank {
 public:
  MeasuringRank(const CalibrateArguments& arguments, Ranks& ranks, int rank, InProcessStore& store)
      : arguments_(arguments), ranks_(ranks), rank_(rank), store_(store) {}

  void measure(Calibration& out) {
    make_device(nullptr);
    measure_products(out);
    measure_moving(out);
    measure_graph(out);
    if (arguments_.ranks > 1) {
      measure_collectives(arguments_.within, out);
      if (arguments_.between != arguments_.within) measure_collectives(arguments_.between, out);
    }
    const double unevenness = ranks_.most(unevenness_);  // a busy core may be another rank's
    if (root()) out.unevenness = unevenness;
  }

 private:
  bool root() const { return rank_ == 0; }

  // What follows captures costs each launch a little.
  void make_device(std::shared_ptr<MemorySource> memory, bool captures = false) {
    DeviceArguments of;
    of.local_rank = rank_;
    of.threads = arguments_.threads;
    of.memory = std::move(memory);
    of.captures = captures;
    of.kernels = [this](std::string_view name, std::string_view memory_kind) {
      return arguments_.plugins->kernels(name, memory_kind);
    };
    const Config config = Config::parse("");
    device_.reset();
    device_ = arguments_.plugins->make<Device>(arguments_.device, *config.node(""), {}, of);
  }

  Tensor tensor(const Shape& shape, DType dtype) {
    Tensor made = Tensor::allocate(
        *device_, device_->pool(), device_->stream(), shape, dtype, Category::activations);
    FillArgs fill;  // pages that were never written read as one page of zeros
    fill.out = made.arg();
    fill.value = 0.5;
    Operation<FillArgs>(*device_).launch(device_->stream(), device_->pool(), fill);
    return made;
  }

  // Seconds of a call, on the slowest rank. All ranks make the same number of calls.
  double seconds_of(const std::function<void()>& call) {
    const auto time = [&](int calls) {
      ranks_.meet();
      const auto start = Clock::now();
      for (int i = 0; i < calls; ++i) call();
      device_->synchronize(device_->stream());
      return std::chrono::duration<double>(Clock::now() - start).count() / calls;
    };
    time(1);
    const double once = ranks_.most(time(1));
    const int calls = static_cast<int>(std::clamp(kBatchSeconds / once, 1.0, 1e4));
    std::vector<double> batches;
    for (int i = 0; i < kBatches; ++i) batches.push_back(time(calls));
    std::ranges::sort(batches);
    unevenness_ = std::max(unevenness_, batches.back() / batches.front());
    return ranks_.most(batches[kBatches / 2]);
  }

  template <class Args>
  double seconds_of_launch(const Args& args) {
    const Operation<Args> operation(*device_);
    return seconds_of([&] { operation.launch(device_->stream(), device_->pool(), args); });
  }

  void measure_products(Calibration& out) {
    const Kernel* kernel = device_->find(MatmulArgs::kName);
    require(kernel != nullptr, "the device \"{}\" has no products", device_->name());
    for (const DType dtype : kTypes) {
      if (!kernel->dtypes.contains(dtype)) continue;
      for (const auto& [m, n, k] : kProducts) {
        const Tensor a = tensor({m, k}, dtype), b = tensor({n, k}, dtype);
        const Tensor product = tensor({m, n}, dtype);
        MatmulArgs args;
        args.a = a.arg();
        args.b = b.arg();
        args.out = product.arg();
        args.transpose_b = true;
        const double seconds = seconds_of_launch(args);
        const double rate = MatmulArgs::effort(args).flops / seconds;
        if (root()) out.products.push_back({dtype, m, n, k, rate});
      }
    }
  }

  template <class Args>
  void measure_moved(const Args& args, Calibration& out) {
    const Kernel* kernel = device_->find(Args::kName);
    require(kernel != nullptr,
            "the device \"{}\" has no operation \"{}\"",
            arguments_.device,
            Args::kName);
    const double bytes = kernel->effort(&args).total_bytes();
    const double seconds = seconds_of_launch(args);
    if (root()) out.moved.push_back({std::string(Args::kName), bytes / seconds});
  }

  void measure_moving(Calibration& out) {
    const Shape shape{kMovedElements / 1024, 1024};
    const Tensor x = tensor(shape, DType::fp32), y = tensor(shape, DType::fp32);
    const Tensor z = tensor(shape, DType::fp32);
    AddArgs add;
    add.a = x.arg();
    add.b = y.arg();
    add.out = z.arg();
    measure_moved(add, out);
    ScaleArgs scale;
    scale.x = x.arg();
    scale.out = y.arg();
    measure_moved(scale, out);
    GeluArgs gelu;
    gelu.x = x.arg();
    gelu.out = y.arg();
    measure_moved(gelu, out);
    const CoreOps ops(*device_);
    Context cx = context(ops);
    const Tensor few = tensor({kFewElements}, DType::fp32);
    const double latency = seconds_of([&] { ops::scale(cx, few, 2); });
    if (root()) {
      out.hardware.launch_latency = latency;
      out.hardware.memory.shared = device_->memory_kind() == kHostMemory;
    }
  }

  // As a layer calls an operation: with its result's memory.
  Context context(const CoreOps& ops) const {
    Context cx;
    cx.device = device_.get();
    cx.ops = &ops;
    cx.stream = &device_->stream();
    cx.pool = &device_->pool();
    return cx;
  }

  // A small graph, whose operations do next to nothing.
  void measure_graph(Calibration& out) {
    make_device(nullptr, true);
    const CoreOps ops(*device_);
    Context cx = context(ops);
    const Tensor few = tensor({kFewElements}, DType::fp32);
    const auto launch = [&] {
      for (int i = 0; i < kGraphLaunches; ++i) {
        ScaleArgs args;
        args.x = args.out = few.arg();
        ops::run(cx, args);
      }
    };
    const double eager = seconds_of(launch);
    device_->begin_capture(device_->stream());
    launch();
    const std::unique_ptr<Graph> graph = device_->end_capture(device_->stream());
    const double replayed = seconds_of([&] { device_->replay(*graph, device_->stream()); });
    if (root()) out.graph = {kGraphLaunches, eager, replayed};
  }

  void measure_collectives(const std::string& type, Calibration& out) {
    CommunicatorArguments of;
    of.rank = rank_;
    of.world = arguments_.ranks;
    of.store = &store_;
    const Config config = Config::parse("");
    const auto communicator =
        arguments_.plugins->make<Communicator>(type, *config.node(""), {}, of);
    make_device(communicator->memory());
    GroupSpec spec;
    spec.name = "calibrate";
    spec.index = rank_;
    for (i64 rank = 0; rank < arguments_.ranks; ++rank) spec.members.push_back(rank);
    {
      ProcessGroup group(spec, communicator->create_group(spec, *device_), rank_);
      for (const CollectiveKind kind : {CollectiveKind::all_reduce,
                                        CollectiveKind::all_gather,
                                        CollectiveKind::reduce_scatter,
                                        CollectiveKind::all_to_all}) {
        for (const i64 bytes : kCollectiveBytes) {
          const double seconds = seconds_of_collective(group, kind, bytes);
          if (root()) out.collectives.push_back({type, kind, bytes, seconds});
        }
      }
      group.barrier(device_->stream(), "calibrate");
    }
    ranks_.meet();  // before anyone ends it
    device_.reset();
  }

  double seconds_of_collective(ProcessGroup& group, CollectiveKind kind, i64 bytes) {
    Stream& stream = device_->stream();
    const i64 ranks = arguments_.ranks;
    const i64 part = std::max<i64>(bytes / dtype_size(DType::fp32) / ranks, 1);
    const Tensor whole = tensor({ranks * part}, DType::fp32), other = tensor({part}, DType::fp32);
    const Tensor arrived = tensor({ranks * part}, DType::fp32);
    std::vector<ProcessGroup::Part> sends, receives;
    for (i64 peer = 0; peer < ranks; ++peer) {
      sends.push_back({static_cast<int>(peer), whole.slice(0, peer * part, part)});
      receives.push_back({static_cast<int>(peer), arrived.slice(0, peer * part, part)});
    }
    const std::string_view name = "calibrate";
    return seconds_of([&] {
      switch (kind) {
        case CollectiveKind::all_gather:
          return group.all_gather(stream, other, whole, name).wait(stream);
        case CollectiveKind::reduce_scatter:
          return group.reduce_scatter(stream, whole, other, name).wait(stream);
        case CollectiveKind::all_to_all:
          return group.all_to_all(stream, sends, receives, name).wait(stream);
        default:
          return group.all_reduce(stream, whole, ReduceOp::max, name).wait(stream);
      }
    });
  }

  const CalibrateArguments& arguments_;
  Ranks& ranks_;
  const int rank_;
  InProcessStore& store_;
  std::shared_ptr<Device> device_;
  double unevenness_ = 1;
};

}  // namespace

Calibration calibrate(const CalibrateArguments& arguments) {
  Calibration out;
  out.ranks = arguments.ranks;
  out.threads = arguments.threads;
  out.hardware.name = arguments.name;
  out.hardware.ranks_per_host = arguments.ranks;
  Ranks ranks(arguments.ranks);
  InProcessStore store;
  ranks.run(arguments.ranks,
            [&](int rank) { MeasuringRank(arguments, ranks, rank, store).measure(out); });
  fill_hardware(out, arguments.within, arguments.between);
  return out;
}

}  // namespace tessera
