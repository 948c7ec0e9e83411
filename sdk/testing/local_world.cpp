#include "local_world.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "kernel/comm/build_mesh.hpp"
#include "kernel/comm/store.hpp"
#include "kernel/comm/threads.hpp"
#include "kernel/model/build_context.hpp"
#include "kernel/model/initialize.hpp"
#include "kernel/plugin/host.hpp"
#include "workbench.hpp"

namespace tessera::testing {

namespace {

std::string joined(std::string_view path, std::string_view key) {
  return path.empty() ? std::string(key) : fmt::format("{}.{}", path, key);
}

// A table of the options' values.
class ValuesNode final : public ConfigNode {
 public:
  ValuesNode(std::string path, const Given& values) : path_(std::move(path)), values_(values) {}
  std::string path() const override { return path_; }
  const Value* find(std::string_view key) const override { return absolute(joined(path_, key)); }
  const Value* absolute(std::string_view path) const override {
    const auto found = std::ranges::find(values_, path, &Given::value_type::first);
    return found == values_.end() ? nullptr : &found->second;
  }
  std::vector<std::string> tables(std::string_view) const override { return {}; }
  std::unique_ptr<ConfigNode> child(std::string_view key) const override {
    return std::make_unique<ValuesNode>(joined(path_, key), values_);
  }
  std::string origin(std::string_view) const override { return "LocalWorldOptions::values"; }

 private:
  std::string path_;
  const Given& values_;
};

class ValuesMaker final : public ComponentMaker {
 public:
  ValuesMaker(const PluginHost& host, const Given& values) : host_(host), values_(values) {}
  using ComponentMaker::make;
  std::shared_ptr<void> make(std::string_view kind,
                             const std::string& type,
                             const std::string& path,
                             const Given& given,
                             void* arguments) override {
    return host_.make(kind, type, ValuesNode(path, values_), given, arguments);
  }
  std::string origin(const std::string&, std::string_view) const override {
    return "LocalWorldOptions::values";
  }

 private:
  const PluginHost& host_;
  const Given& values_;
};

class ThreadRank final : public LocalRank {
 public:
  ThreadRank(const PluginHost& host, const LocalWorldOptions& options, i64 rank, Store& store)
      : options_(options), maker_(host, options.values) {
    const i64 world = options.layout.world;
    if (world > 1) {
      CommunicatorArguments arguments{rank, world, &store, options.timeout, options.timeout};
      communicator_ = maker_.make(Component<Communicator>{"threads", "comm"}, arguments);
    }
    DeviceArguments arguments;
    arguments.deferred_seed = options.deferred_seed;
    arguments.local_rank = static_cast<int>(rank);
    arguments.kernels = [&host](std::string_view device) { return host.kernels(device); };
    device_ = maker_.make(Component<Device>{options.device, "device"}, arguments);
    mesh_ = std::make_unique<Mesh>(RankGenerator(options.layout), rank);
    if (communicator_ != nullptr) {
      build_mesh(*mesh_, *communicator_, *device_);
    } else {
      build_mesh(*mesh_);
    }
    bench_ = std::make_unique<Workbench>(*device_);
    bench_->context().mesh = mesh_.get();
    parts_ = std::make_unique<ModelParts>(*mesh_);
    settings_ = {.mesh = mesh_.get(),
                 .batch = options.batch,
                 .compute = options.dtype,
                 .main = options.dtype,
                 .seed = options.seed,
                 .device = device_.get(),
                 .maker = &maker_};
  }

  const Mesh& mesh() const override { return *mesh_; }
  Context& context() override { return bench_->context(); }
  Slot slot(const std::string& name) override { return {parts_->slot(name)}; }
  Bundle bundle() const override { return parts_->bundle(); }
  std::vector<Parameter*> parameters() override { return parts_->parameter_list(); }
  void abort(std::string_view reason) noexcept {
    if (communicator_ != nullptr) communicator_->abort(reason);
  }

 protected:
  DType dtype() const override { return options_.dtype; }
  std::shared_ptr<void> build(std::string_view kind,
                              const std::string& scope,
                              const std::string& type,
                              const Given& given) override {
    const std::size_t before = parts_->parameters().size();
    ScopedBuild build(settings_, *parts_, layers_++, scope, scope);
    std::shared_ptr<void> made =
        maker_.make(kind, type, scope, given, static_cast<BuildContext*>(&build));
    for (std::size_t i = before; i < parts_->parameters().size(); ++i) {
      Parameter& p = *parts_->parameters()[i].parameter;
      p.main = p.compute = context().empty(p.local, options_.dtype);
      p.grad = context().empty(p.local, options_.dtype);
      initialize(p, options_.seed, *mesh_, *device_);
      write(p.grad, std::vector<double>(static_cast<std::size_t>(p.local.elements())));
    }
    return made;
  }

 private:
  const LocalWorldOptions& options_;
  ValuesMaker maker_;
  std::shared_ptr<Communicator> communicator_;
  std::shared_ptr<Device> device_;
  std::unique_ptr<Mesh> mesh_;
  std::unique_ptr<Workbench> bench_;
  std::unique_ptr<ModelParts> parts_;
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
