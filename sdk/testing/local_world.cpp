#include "local_world.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "kernel/comm/store.hpp"
#include "kernel/comm/threads.hpp"
#include "kernel/model/initialize.hpp"
#include "kernel/train/setup/host_maker.hpp"
#include "kernel/train/setup/make_rank.hpp"
#include "workbench.hpp"

namespace tessera::testing {

namespace {

// The options' values as a configuration.
std::shared_ptr<const ConfigTree> tree_of(const Given& values) {
  auto tree = std::make_shared<ConfigTree>();
  for (const auto& [path, value] : values) {
    Entry entry;
    entry.value = value;
    entry.key.kind = entry.at.kind = Origin::set;
    entry.key.name = entry.at.name = "LocalWorldOptions::values";
    tree->put(path, std::move(entry));
  }
  return tree;
}

class ThreadRank final : public LocalRank {
 public:
  ThreadRank(const PluginHost& host, const LocalWorldOptions& options, i64 rank, Store& store)
      : options_(options),
        maker_(host, tree_of(options.values)),
        rank_(make_rank({.layout = options.layout,
                         .device = {options.device, "device"},
                         .timeout = options.timeout,
                         .init_timeout = options.timeout,
                         .maker = &maker_},
                        {.rank = rank,
                         .world = options.layout.world,
                         .local_rank = rank,
                         .local_world = options.layout.world,
                         .store = &store,
                         .communicator = "threads",
                         .deferred_seed = options.deferred_seed})),
        context_(rank_.context()),
        parts_(*rank_.mesh) {
    settings_ = {.mesh = rank_.mesh.get(),
                 .batch = options.batch,
                 .sequence_parallel = options.sequence_parallel,
                 .compute = options.dtype,
                 .main = options.dtype,
                 .seed = options.seed,
                 .device = rank_.device.get(),
                 .maker = &maker_};
  }

  const Mesh& mesh() const override { return *rank_.mesh; }
  Context& context() override { return context_; }
  std::vector<Buffer*> buffers() override {
    std::vector<Buffer*> all;
    for (const auto& buffer : parts_.buffers()) all.push_back(buffer.get());
    return all;
  }
  bool partial(LossTerm term, Axis axis) const override {
    const auto& axes = parts_.losses().at(static_cast<std::size_t>(term.index)).partial;
    return std::ranges::find(axes, axis) != axes.end();
  }
  Slot slot(const std::string& name) override { return {parts_.slot(name)}; }
  Bundle bundle() const override { return parts_.bundle(); }
  std::vector<Parameter*> parameters() override { return parts_.parameter_list(); }
  void abort(std::string_view reason) noexcept {
    if (rank_.communicator != nullptr) rank_.communicator->abort(reason);
  }

 protected:
  DType dtype() const override { return options_.dtype; }
  std::shared_ptr<void> build(std::string_view kind,
                              const std::string& scope,
                              const std::string& type,
                              const Given& given) override {
    const std::size_t before = parts_.parameters().size();
    const std::size_t buffers_before = parts_.buffers().size();
    ScopedBuild build(settings_, parts_, layers_++, scope, scope);
    std::shared_ptr<void> made =
        maker_.make(kind, type, scope, given, static_cast<BuildContext*>(&build));
    for (std::size_t i = before; i < parts_.parameters().size(); ++i) {
      Parameter& p = *parts_.parameters()[i].parameter;
      p.main = p.compute = context().empty(p.local, options_.dtype);
      p.grad = context().empty(p.local, options_.dtype);
      initialize(p, options_.seed, *rank_.device);
      write(p.grad, std::vector<double>(static_cast<std::size_t>(p.local.elements())));
    }
    for (std::size_t i = buffers_before; i < parts_.buffers().size(); ++i) {
      Buffer& b = *parts_.buffers()[i];
      b.value = context().empty(b.local, b.dtype);
      write(b.value, initial_values(b));
    }
    return made;
  }

 private:
  const LocalWorldOptions& options_;
  HostMaker maker_;
  Rank rank_;
  Context context_;
  ModelParts parts_;
  BuildSettings settings_;
  int layers_ = 0;
};

}  // namespace

LocalRank::~LocalRank() = default;

Parameter& LocalRank::parameter(const std::string& name) {
  for (Parameter* parameter : parameters()) {
    if (parameter->name == name) return *parameter;
  }
  fail("nothing that was built has a parameter \"{}\"", name);
}

Tensor LocalRank::tensor(const Shape& shape, const std::vector<double>& values) {
  return tensor(shape, dtype(), values);
}

Tensor LocalRank::tensor(const Shape& shape, DType dtype, const std::vector<double>& values) {
  Tensor made = context().empty(shape, dtype);
  write(made, values);
  return made;
}

struct LocalWorld::State {
  explicit State(std::vector<std::filesystem::path> plugins) : host(std::move(plugins)) {}
  PluginHost host;
};

LocalWorld::LocalWorld(std::vector<std::filesystem::path> plugins)
    : state_(std::make_unique<State>(std::move(plugins))) {
  const std::vector<std::string> failures = state_->host.load_failures();
  require(failures.empty(), "{}", fmt::join(failures, "\n"));
  state_->host.add_builtin(&register_threads);
}

LocalWorld::~LocalWorld() = default;

void LocalWorld::add(void (*register_all)(Registrar&)) { state_->host.add_builtin(register_all); }

std::shared_ptr<void> LocalWorld::make(std::string_view kind,
                                       std::string_view type,
                                       const Given& values,
                                       void* arguments) const {
  const auto tree = tree_of(values);
  const ComponentInfo* info = state_->host.find(kind, type);
  for (const auto& [path, value] : values) {
    const auto of_path = [path = path](const FieldSpec& field) {
      return field.name == path || field.from == path;
    };
    require(info == nullptr || std::ranges::any_of(info->fields, of_path),
            "{}/{} has no key \"{}\"",
            kind,
            type,
            path);
  }
  return state_->host.make(kind, type, *make_node(tree, ""), {}, arguments);
}

std::function<std::vector<Kernel>(std::string_view, std::string_view)> LocalWorld::kernels() const {
  return [this](std::string_view device, std::string_view memory_kind) {
    return state_->host.kernels(device, memory_kind);
  };
}

void LocalWorld::run(const LocalWorldOptions& options,
                     const std::function<void(LocalRank&)>& body) const {
  InProcessStore store;
  std::mutex mutex;
  std::exception_ptr first;
  const auto run_rank = [&](i64 index) {
    std::unique_ptr<ThreadRank> rank;
    try {
      rank = std::make_unique<ThreadRank>(state_->host, options, index, store);
      body(*rank);
      for (int lane = 0; lane < kCommLanes; ++lane) {
        rank->device().synchronize(rank->device().comm_stream(static_cast<CommLane>(lane)));
      }
      rank->device().synchronize(rank->device().stream());
    } catch (const std::exception& error) {
      {
        const std::lock_guard lock(mutex);
        if (first == nullptr) first = std::current_exception();
      }
      if (rank != nullptr) rank->abort(error.what());
    }
  };
  std::vector<std::thread> threads;
  for (i64 rank = 0; rank < options.layout.world; ++rank) threads.emplace_back(run_rank, rank);
  for (std::thread& thread : threads) thread.join();
  if (first != nullptr) std::rethrow_exception(first);
}

}  // namespace tessera::testing
