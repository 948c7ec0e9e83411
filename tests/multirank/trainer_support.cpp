#include "trainer_support.hpp"

#include <memory>

#include "common/metrics_lines.hpp"
#include "kernel/checkpoint/index.hpp"
#include "kernel/checkpoint/safetensors_file.hpp"
#include "kernel/comm/store.hpp"
#include "kernel/config/dump.hpp"
#include "kernel/train/run/trainer.hpp"
#include "tessera/error.hpp"

namespace tessera::testing {

void run_trainer(const TrainerOptions& options) {
  const PluginHost& host = options.host != nullptr ? *options.host : plugins();
  const Resolved config = resolve(Config::parse(options.config, "test", options.sets), host);
  const i64 world = world_size(config.run);
  const RunSetup setup = derive_setup(config, host, world);
  InProcessStore store;
  on_threads(world, [&](i64 rank) {
    i64 steps = 0;
    TrainerArguments arguments;
    arguments.setup = &setup;
    arguments.identity = thread_identity(rank, world, store, config.run);
    if (world == 1) arguments.identity.store = nullptr;
    arguments.config_text = dump(config);
    // Asked before each step; all ranks stop after the step after the next.
    arguments.stop = [&] { return rank == 0 && ++steps == options.stop_after - 1; };
    train_rank(arguments);
  });
}

void on_ranks(const std::string& text,
              const std::vector<std::string>& sets,
              const std::function<void(RankRun&, Store*)>& body) {
  const Resolved config = resolve(Config::parse(text, "test", sets), plugins());
  const i64 world = world_size(config.run);
  InProcessStore store;
  run_ranks(
      derive_setup(config, plugins(), world),
      [&](i64 rank) { return thread_identity(rank, world, store); },
      [&](RankRun& run) { body(run, world > 1 ? &store : nullptr); });
}

std::vector<double> metric_of(const std::string& out, const std::string& key) {
  std::vector<double> values;
  for (const std::string& line : metrics_lines(out)) {
    if (const auto value = metric_in(line, key)) values.push_back(*value);
  }
  return values;
}

std::map<std::string, std::string> logical_tensors(const std::string& folder) {
  const CheckpointIndex index = read_index(folder);
  std::map<std::string, std::string> tensors;
  for (const auto& [name, tensor] : index.tensors) {
    i64 elements = 1;
    for (const i64 size : tensor.shape) elements *= size;
    const i64 bytes = dtype_size(parse_dtype(tensor.dtype));
    std::string& whole = tensors[name];
    whole.assign(static_cast<std::size_t>(elements * bytes), '?');
    for (const StoredSlice& slice : tensor.slices) {
      const SafetensorsFile file(folder + "/" + slice.file);
      const std::vector<std::byte> from = file.read(file.entry(slice.key));
      for (i64 i = 0; i < slice.where.elements(); ++i) {
        i64 rest = i, at = 0, stride = 1;
        for (std::size_t d = tensor.shape.size(); d-- > 0;) {
          at += (slice.where.begin[d] + rest % slice.where.shape[d]) * stride;
          rest /= slice.where.shape[d];
          stride *= tensor.shape[d];
        }
        for (i64 b = 0; b < bytes; ++b) {
          whole[static_cast<std::size_t>(at * bytes + b)] =
              static_cast<char>(from[static_cast<std::size_t>(i * bytes + b)]);
        }
      }
    }
  }
  return tensors;
}

}  // namespace tessera::testing
