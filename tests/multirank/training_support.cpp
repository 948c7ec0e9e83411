#include "training_support.hpp"

#include <unistd.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include "bert_samples_support.hpp"
#include "kernel/comm/communicators.hpp"
#include "kernel/comm/store.hpp"
#include "kernel/comm/threads.hpp"
#include "kernel/model/host_values.hpp"
#include "kernel/model/owned_values.hpp"
#include "kernel/train/execution/agree_plans.hpp"
#include "kernel/train/setup/make_rank.hpp"
#include "tessera/ops/update.hpp"
#include "tessera/random.hpp"

namespace tessera::testing {

namespace {

// Words in an order that a small model can learn something of, in a file of this process.
std::string text_file() {
  static const std::string kPath = [] {
    const auto file = std::filesystem::temp_directory_path() /
                      fmt::format("tessera_text_{}.txt", static_cast<long>(getpid()));
    const char* words[] = {"the ", "king ", "and ", "queen ", "of ", "night, ", "day. ", "no "};
    std::ofstream out(file);
    for (u64 i = 0; i < 4000; ++i) out << words[Philox::words(7, {static_cast<u32>(i)})[0] % 8];
    struct Cleaner {
      std::filesystem::path path;
      ~Cleaner() { std::filesystem::remove(path); }
    };
    static const Cleaner kCleaner{file};
    return file.string();
  }();
  return kPath;
}

// What the first of several threads threw.
class FirstError {
 public:
  void keep() {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = std::current_exception();
  }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr error_;
};

// Where each replica has the sums of its own shard of a bucket, gives every rank all sums.
void gather_gradients(RankRun& run) {
  Context cx = run.rank().context();
  for (const GradientSync::Bucket& bucket : run.step().gradients().buckets()) {
    if (!bucket.cut()) continue;
    bucket.replicas->all_gather(*cx.stream, bucket.own, bucket.flat, "gradients for a test")
        .wait(*cx.stream);
  }
}

}  // namespace

std::string tiny_config() {
  return fmt::format(R"(
schema = 1
[run]
seed = 11
steps = 200
log_every_steps = 1
[device]
type = "reference"
[comm]
timeout_s = 20
[batch]
global = 8
micro = 2
sequence_length = 8
[model]
type = "gpt"
layers = 2
hidden = 16
heads = 4
dropout = 0.1
vocab_multiple = 8
[optimizer]
type = "replicated"
clip = 1.0
[lr]
type = "cosine"
peak = 1e-3
warmup_steps = 10
[data]
type = "text"
path = "{}"
[check]
replicas_every = 1
)",
                     text_file());
}

std::unique_ptr<PluginHost> load_plugins() {
  auto host = std::make_unique<PluginHost>(std::vector<std::filesystem::path>{
      TESSERA_BUILD_DIR "/plugins", TESSERA_BUILD_DIR "/tests/plugins/adafactor"});
  host->add_builtin(&register_threads);
  host->add_builtin(&bert_samples::register_pairs);
  return host;
}

const PluginHost& plugins() {
  static const std::unique_ptr<PluginHost> kHost = load_plugins();
  return *kHost;
}

void gather_into(std::vector<double>& logical,
                 const std::vector<double>& local,
                 const Parameter& parameter) {
  gather_into(logical, local, parameter, {0, parameter.local.elements()});
}

void gather_into(std::vector<double>& logical,
                 const std::vector<double>& part,
                 const Parameter& parameter,
                 const FlatRange& range) {
  logical.resize(static_cast<std::size_t>(parameter.logical.elements()));
  for (const ElementRun& run : parameter.layout.runs()) {
    const i64 begin = std::max(run.local, range.begin);
    const i64 end = std::min(run.local + run.length, range.begin + range.length);
    if (begin >= end) continue;
    std::copy_n(part.begin() + (begin - range.begin),
                end - begin,
                logical.begin() + run.logical + (begin - run.local));
  }
}

void on_threads(i64 world, const std::function<void(i64)>& body) {
  FirstError error;
  std::vector<std::thread> threads;
  for (i64 rank = 0; rank < world; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (...) {
        error.keep();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  error.rethrow();
}

RankRun::RankRun(const RunSetup& setup, const RankIdentity& identity)
    : setup_(setup),
      rank_(make_rank(rank_spec_of(setup), identity)),
      model_(rank_, setup),
      step_(model_),
      evaluation_(model_) {
  if (identity.world > 1) {
    agree_plans(step_.plan(), *rank_.mesh, *identity.store, std::chrono::seconds(20));
  }
  model_.initialize(setup.config->run.seed);
}

RankIdentity thread_identity(i64 rank, i64 world, Store& store, const RunConfig& config) {
  const std::string& configured = config.comm.communicator.type;
  return {.rank = rank,
          .world = world,
          .local_rank = rank,
          .local_world = world,
          .store = &store,
          .communicator = configured == kAutoCommunicator ? "threads" : configured};
}

void run_ranks(const RunSetup& setup,
               const std::function<RankIdentity(i64)>& identity,
               const std::function<void(RankRun&)>& body) {
  FirstError error;
  on_threads(setup.layout.world, [&](i64 rank) {
    RankRun run(setup, identity(rank));
    try {
      body(run);
    } catch (const std::exception& caught) {
      error.keep();  // before the others hear of it and throw what follows from it
      run.rank().abort(caught.what());
    }
  });
  error.rethrow();
}

Training train(const std::string& text,
               const std::vector<std::string>& sets,
               const TrainOptions& options) {
  const PluginHost& host = options.host != nullptr ? *options.host : plugins();
  const Resolved config = resolve(Config::parse(text, "test", sets), host);
  const i64 world = world_size(config.run);
  InProcessStore store;
  Training result;
  std::mutex mutex;

  const auto train_rank = [&](RankRun& run) {
    const auto gather = [&](auto& into, auto member) {
      for (const auto& entry : run.parts().parameters()) {
        const Parameter& p = *entry.parameter;
        const std::vector<double> local = read_values(run.device(), p.*member);
        const std::lock_guard lock(mutex);
        gather_into(into[p.name], local, p);
      }
    };
    for (int step = 0; step < options.steps; ++step) {
      const std::function<void()> inspect = [&] {
        gather_gradients(run);
        gather(result.gradients, &Parameter::grad);
        if (options.before_update) options.before_update(run);
      };
      run.step().run(step == 0 ? inspect : std::function<void()>());
      for (const StepLosses::Row& row : run.step().losses()) {
        if (run.mesh().rank() != 0) continue;
        result.losses.push_back(row.loss);
        result.norms.push_back(row.scalars[step_scalar::kNorm]);
        result.loss_scales.push_back(row.scalars[step_scalar::kLossScale]);
        result.updates.push_back(row.scalars[step_scalar::kSteps]);
      }
      if (config.run.check.replicas_every > 0) run.step().check_replicas();
    }
    run.step().gather_parameters();
    for (const auto& entry : run.parts().parameters()) {
      const Parameter& p = *entry.parameter;
      const OwnedValues main = owned_values(run.model().memory(), p);
      const std::vector<double> part = read_values(run.device(), main.values);
      const std::lock_guard lock(mutex);
      gather_into(result.parameters[p.name], part, p, main.range);
    }
    if (options.at_end) options.at_end(run);
  };

  const auto identity_of = [&](i64 rank) {
    RankIdentity identity = thread_identity(rank, world, store, config.run);
    identity.deferred_seed = options.deferred_seed;
    if (options.one_unit) identity.local_rank = 0;
    if (!options.two_hosts) return identity;
    identity.between_hosts = "gloo";
    for (i64 r = 0; r < world; ++r) identity.hosts.emplace_back(r % 2 == 0 ? "even" : "odd");
    return identity;
  };
  run_ranks(derive_setup(config, host, world), identity_of, train_rank);
  return result;
}

}  // namespace tessera::testing
