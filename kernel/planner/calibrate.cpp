#include "kernel/planner/calibrate.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <utility>

#include "kernel/comm/store.hpp"
#include "kernel/config/config.hpp"
#include "kernel/planner/measuring_team.hpp"
#include "kernel/train/setup/make_rank.hpp"
#include "tessera/context.hpp"
#include "tessera/device/core_ops.hpp"
#include "tessera/device/random_values.hpp"
#include "tessera/error.hpp"
#include "tessera/ops.hpp"

namespace tessera {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kBatches = 5;               // their median counts
constexpr double kBatchSeconds = 0.02;    // at least
constexpr double kMostCalls = 1e4;        // of a batch
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
// A device with memory of its own may be far faster than a CPU, or be emulated by one: sizes start
// this small there, and double until a call takes so long that its launch does not count.
constexpr i64 kSmallest = 8, kLargest = 8;  // times smaller and larger than the sizes above
constexpr double kProductSeconds = 1e-3, kMovedSeconds = 2e-4;
constexpr DType kTypes[] = {DType::fp64, DType::fp32, DType::fp16, DType::bf16};

std::shared_ptr<Device> device_of(const CalibrateArguments& arguments, DeviceArguments of) {
  of.threads = arguments.threads;
  of.kernels = [&arguments](std::string_view name, std::string_view memory_kind) {
    return arguments.plugins->kernels(name, memory_kind);
  };
  const Config config = Config::parse("");
  return arguments.plugins->make<Device>(arguments.device, *config.node(""), {}, of);
}

// Communicators that join several ranks carry memory of the host.
void require_links(const CalibrateArguments& arguments) {
  if (arguments.ranks == 1 || has_host_memory(arguments)) return;
  fail_config(
      "--ranks {}: the device \"{}\" has memory of its own, and \"{}\" joins ranks through the "
      "host's; measure --ranks 1, and write [inside] and [between] of the table by hand, as in "
      "configs/hardware/h100-dgx.toml",
      arguments.ranks,
      arguments.device,
      arguments.within);
}

// One rank: its device, and what it measures with the others.
class MeasuringRank {
 public:
  MeasuringRank(const CalibrateArguments& arguments,
                MeasuringTeam& ranks,
                int rank,
                InProcessStore& store)
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

  // `captures`: the device's bookkeeping for them costs each launch a little.
  void make_device(std::shared_ptr<MemorySource> memory, bool captures = false) {
    DeviceArguments of;
    of.local_rank = rank_;
    of.local_world = arguments_.ranks;
    of.memory = std::move(memory);
    of.captures = captures;
    device_.reset();
    device_ = device_of(arguments_, std::move(of));
  }

  // Values as in training, which a GPU multiplies slower than constants. A CPU's speed depends on
  // where pages lie instead: its threads touch them first, as they do in training.
  Tensor tensor(const Shape& shape, DType dtype) {
    Tensor made = Tensor::allocate(
        *device_, device_->pool(), device_->stream(), shape, dtype, Category::activations);
    FillArgs fill;
    fill.out = made.arg();
    Operation<FillArgs>(*device_).launch(device_->stream(), device_->pool(), fill);
    write_random(made, ++tensors_);
    return made;
  }

  // Seconds of a call, on the slowest rank. All ranks make the same number of calls.
  double seconds_of(const std::function<void()>& call) {
    const auto time = [&](double calls) {
      ranks_.meet();
      const auto start = Clock::now();
      for (int i = 0; i < calls; ++i) call();
      device_->synchronize(device_->stream());
      return std::chrono::duration<double>(Clock::now() - start).count() / calls;
    };
    time(1);
    double calls = 1, each = ranks_.most(time(1));
    while (calls < kMostCalls && calls * each < kBatchSeconds) {  // queued calls take less each
      calls = std::clamp(std::ceil(kBatchSeconds / each), 2 * calls, kMostCalls);
      each = ranks_.most(time(calls));
    }
    std::vector<double> batches;
    for (int i = 0; i < kBatches; ++i) batches.push_back(time(calls));
    std::ranges::sort(batches);
    unevenness_ = std::max(unevenness_, batches.back() / batches.front());
    return ranks_.most(batches[kBatches / 2]);
  }

  // Sizes for this device: `seconds(size)` is of one call.
  template <class F>
  i64 long_enough(i64 size, double wanted, const F& seconds) {
    if (device_->memory_kind() == kHostMemory) return size;
    const i64 largest = size * kLargest;
    for (size /= kSmallest; size < largest && ranks_.most(seconds(size)) < wanted;) size *= 2;
    return size;
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
      const i64 usual = kProducts[0].m;
      const i64 side = long_enough(usual, kProductSeconds, [&](i64 size) {
        return seconds_of_product({size, size, size}, dtype).seconds;
      });
      for (const ProductShape& shape : kProducts) {
        const ProductShape of{
            shape.m * side / usual, shape.n * side / usual, shape.k * side / usual};
        const auto [seconds, flops] = seconds_of_product(of, dtype);
        if (root()) out.products.push_back({dtype, of.m, of.n, of.k, flops / seconds});
      }
    }
  }

  struct Timed {
    double seconds, flops;
  };
  Timed seconds_of_product(const ProductShape& shape, DType dtype) {
    const Tensor a = tensor({shape.m, shape.k}, dtype), b = tensor({shape.n, shape.k}, dtype);
    const Tensor product = tensor({shape.m, shape.n}, dtype);
    MatmulArgs args;
    args.a = a.arg();
    args.b = b.arg();
    args.out = product.arg();
    args.transpose_b = true;
    return {seconds_of_launch(args), MatmulArgs::effort(args).flops};
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

  double seconds_of_scale(i64 elements) {
    const Tensor x = tensor({elements}, DType::fp32), y = tensor({elements}, DType::fp32);
    ScaleArgs args;
    args.x = x.arg();
    args.out = y.arg();
    return seconds_of_launch(args);
  }

  void measure_moving(Calibration& out) {
    const i64 elements = long_enough(
        kMovedElements, kMovedSeconds, [&](i64 size) { return seconds_of_scale(size); });
    const Shape shape{elements / 1024, 1024};
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
      out.hardware.memory.capacity = static_cast<double>(device_->unit().memory);
      const std::string hardware = device_->hardware();
      out.device = fmt::format("{}{}{}", arguments_.device, hardware.empty() ? "" : ": ", hardware);
    }
  }

  // Calls operations as a layer does: with its result's memory.
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
  MeasuringTeam& ranks_;
  const int rank_;
  InProcessStore& store_;
  std::shared_ptr<Device> device_;
  double unevenness_ = 1;
  u64 tensors_ = 0;  // made so far: no two have the same values
};

}  // namespace

bool has_host_memory(const CalibrateArguments& arguments) {
  DeviceArguments of;
  of.planned = true;
  return device_of(arguments, std::move(of))->memory_kind() == kHostMemory;
}

Calibration calibrate(const CalibrateArguments& arguments) {
  Calibration out;
  out.ranks = arguments.ranks;
  out.threads = arguments.threads;
  out.hardware.name = arguments.name;
  out.hardware.ranks_per_host =
      arguments.ranks_per_host > 0 ? arguments.ranks_per_host : arguments.ranks;
  require_links(arguments);
  MeasuringTeam ranks(arguments.ranks);
  InProcessStore store;
  ranks.run([&](int rank) { MeasuringRank(arguments, ranks, rank, store).measure(out); });
  fill_hardware(out, arguments.within, arguments.between);
  return out;
}

}  // namespace tessera
